//! The drafter's half of rejection acceptance: children drawn from the draft distribution without replacement.

use std::collections::BTreeMap;

use crate::uniforms::next_uniform;
use crate::{
    Candidates, Distribution, DistributionError, DrawnTree, DrawnTreeError, Token, Tree, UniformError, Uniforms,
};

/// Tokens that a draft distribution is cut to before anything is drawn from it: so many pairs travel with each node that
/// has children, and the rule stays exact, for what is cut has draft probability 0.
pub const DRAFT_TOKENS_MAX: usize = 64;

/// Why a tree could not be drawn.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum DrawError {
    /// There is nothing to draw from.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
    /// A uniform draw cannot be used.
    #[error(transparent)]
    Uniform(#[from] UniformError),
    /// The tree was not drawn here.
    #[error(transparent)]
    Tree(#[from] DrawnTreeError),
}

/// What one round draws: beside a [`crate::Grower`] it turns candidates into children, and its proposal into a
/// [`DrawnTree`].
#[derive(Debug, Clone)]
pub struct Drawing {
    uniforms: Uniforms,
    /// What the children of each draft node were drawn from.
    q: BTreeMap<usize, Distribution>,
}

impl Drawing {
    /// A round in which nothing is drawn yet. One of `uniforms` is used for each child, in the order of the draft: the
    /// same draws and candidates give the same tree.
    pub fn new(uniforms: Uniforms) -> Self {
        Self { uniforms, q: BTreeMap::new() }
    }

    /// Draws up to `n` children of draft node `id` (0 is the root) from `best`, renormalised.
    ///
    /// # Errors
    /// No candidate at all.
    pub fn draw(&mut self, id: usize, best: &Candidates, n: usize) -> Result<Candidates, DrawError> {
        let q = Distribution::of_candidates(best)?;
        let children = draw_candidates(best, &q, n, &mut self.uniforms)?;
        self.q.insert(id, q);
        Ok(children)
    }

    /// The drawn tree of a proposal: node `i + 1` of `tree` was draft node `drafted_ids[i]`.
    ///
    /// # Errors
    /// A tree that was not drawn here.
    pub fn finish(mut self, tree: Tree, drafted_ids: &[usize]) -> Result<DrawnTree, DrawError> {
        let q = [0].iter().chain(drafted_ids).map(|id| self.q.remove(id)).collect();
        Ok(DrawnTree::new(tree, q)?)
    }
}

/// Draws up to `n` distinct tokens from `q`, in the order drawn, each by inverse CDF from what those before it left.
///
/// One of `uniforms` is used for each token. There are fewer tokens than `n` where `q` runs out.
///
/// # Errors
/// A uniform draw that is not in [0, 1), or too few of them.
pub fn draw_distinct(
    q: &Distribution,
    n: usize,
    uniforms: &mut impl Iterator<Item = f64>,
) -> Result<Vec<Token>, UniformError> {
    let (mut drawn, mut left) = (Vec::new(), Some(q.clone()));
    while drawn.len() < n
        && let Some(q) = left
    {
        let token = q.at(next_uniform(uniforms)?);
        left = q.without(token);
        drawn.push(token);
    }
    Ok(drawn)
}

/// Draws up to `n` children of a node whose draft distribution is `q`: what a [`crate::Grower`] is given in rejection
/// mode, in the order drawn, each with its probability in `q`.
///
/// `best` are the K candidates that `q` is made of ([`Distribution::of_candidates`]); confidence and entropy stay those
/// of the whole distribution, and a prediction stays. `q` is what must travel with the tree: [`Drawing`] keeps it.
///
/// # Errors
/// As for [`draw_distinct`].
pub fn draw_candidates(
    best: &Candidates,
    q: &Distribution,
    n: usize,
    uniforms: &mut impl Iterator<Item = f64>,
) -> Result<Candidates, UniformError> {
    let drawn = draw_distinct(q, n, uniforms)?;
    let children = drawn.into_iter().map(|token| (token, q.prob(token))).collect();
    Ok(best.with_tokens(children))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::Side;

    fn draw(probs: &[f64], n: usize, uniforms: &[f64]) -> Result<Vec<Token>, UniformError> {
        draw_distinct(&Distribution::from_probs(probs).unwrap(), n, &mut uniforms.iter().copied())
    }

    #[test]
    fn each_draw_is_from_what_the_earlier_ones_left() {
        assert_eq!(draw(&[0.5, 0.25, 0.25], 3, &[0.0, 0.0, 0.0]), Ok(vec![0, 1, 2]));
        assert_eq!(draw(&[0.5, 0.25, 0.25], 2, &[0.5, 0.5]), Ok(vec![1, 0]));
        assert_eq!(draw(&[0.5, 0.25, 0.25], 2, &[0.5, 0.7]), Ok(vec![1, 2]));
    }

    #[test]
    fn where_q_runs_out_there_are_fewer() {
        assert_eq!(draw(&[0.0, 1.0], 3, &[0.9]), Ok(vec![1]));
        assert_eq!(draw(&[0.5, 0.5], 0, &[]), Ok(vec![]));
    }

    #[test]
    fn a_draw_that_is_none_is_an_error() {
        assert_eq!(draw(&[0.5, 0.5], 2, &[0.1]), Err(UniformError::Exhausted));
        assert_eq!(draw(&[0.5, 0.5], 1, &[-0.1]), Err(UniformError::Range { found: -0.1 }));
    }

    #[test]
    fn children_come_as_drawn_with_the_shape_of_the_whole() {
        let best = Candidates::from_probs(&[0.2, 0.2, 0.6], 2).unwrap();
        let q = Distribution::of_candidates(&best).unwrap();
        let children = draw_candidates(&best, &q, 2, &mut [0.1, 0.0].into_iter()).unwrap();
        assert_eq!(children.tokens(), [(0, q.prob(0)), (2, q.prob(2))]);
        assert_eq!(children.shape(), best.shape());
    }

    #[test]
    fn a_round_sends_its_tree_with_what_each_node_that_was_sent_drew_from() {
        let drawing = || Drawing::new(Uniforms::new(3, 8, Side::Draft));
        let best = Candidates::from_probs(&[0.5, 0.25, 0.125, 0.125], 3).unwrap();
        let draw = |drawing: &mut Drawing, id| drawing.draw(id, &best, 2).unwrap().tokens().to_vec();
        let mut round = drawing();
        let (below_root, below_2) = (draw(&mut round, 0), draw(&mut round, 2));
        assert_eq!(draw(&mut drawing(), 0), below_root, "the same draws");
        // Of the root's two children only the second is sent, with its first child.
        let mut tree = Tree::new();
        tree.push(0, below_root[1].0, below_root[1].1).unwrap();
        tree.push(1, below_2[0].0, below_2[0].1).unwrap();
        let drawn = round.clone().finish(tree.clone(), &[2, 3]).unwrap();
        let q = Distribution::of_candidates(&best).unwrap();
        assert_eq!(drawn.distributions().collect::<Vec<_>>(), [(0, &q), (1, &q)]);
        let fault = DrawError::Tree(DrawnTreeError::Missing { node: 1 });
        assert_eq!(round.finish(tree, &[1, 3]), Err(fault), "node 1 drew nothing");
    }

    #[test]
    fn nothing_can_be_drawn_from_nothing() {
        let nothing = Candidates::from_probs(&[1.0], 0).unwrap();
        let fault = Drawing::new(Uniforms::new(0, 0, Side::Draft)).draw(0, &nothing, 1);
        assert_eq!(fault, Err(DrawError::Distribution(DistributionError::Nothing)));
    }

    proptest! {
        #[test]
        fn drawn_tokens_are_possible_and_distinct(
            weights in prop::collection::vec(1_u32..9, 1..8), n in 0_usize..10, us in prop::collection::vec(0.0_f64..1.0, 10)
        ) {
            let sum: u32 = weights.iter().sum();
            let probs: Vec<f64> = weights.iter().map(|&weight| f64::from(weight) / f64::from(sum)).collect();
            let mut drawn = draw(&probs, n, &us).unwrap();
            prop_assert_eq!(drawn.len(), n.min(probs.len()));
            prop_assert!(drawn.iter().all(|&token| (token as usize) < probs.len()));
            drawn.sort_unstable();
            prop_assert!(drawn.is_sorted_by(|a, b| a < b));
        }
    }
}
