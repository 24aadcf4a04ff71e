//! The exact law of rejection acceptance, without a random number: how likely each end of a walk is, and how likely
//! each run of committed tokens over every tree that can be drawn.

use std::collections::BTreeMap;

use super::trial::Trial;
use super::{DrawnTree, DrawnTreeError};
use crate::{Distribution, Token, Tree, TreeFault};

/// Most trees that [`round_law`] goes through.
pub const DRAWN_TREES_MAX: usize = 1 << 20;

/// Why the law of a round could not be worked out.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LawError {
    /// More trees can be drawn than anyone would wait for.
    #[error("more than {DRAWN_TREES_MAX} trees can be drawn")]
    TooManyTrees,
    /// A tree that can be drawn is too large.
    #[error(transparent)]
    Tree(#[from] TreeFault),
    /// A tree that can be drawn is refused.
    #[error(transparent)]
    Drawn(#[from] DrawnTreeError),
}

/// How the walk down one drawn tree can go.
#[derive(Debug, Clone, PartialEq)]
pub struct RejectionLaw {
    /// Node `i + 1` is accepted with probability `accept[i]`, given that it is tried; `None` where it never is, as an
    /// earlier sibling is always accepted.
    pub accept: Vec<Option<f64>>,
    /// The bonus of a walk that ends at a node, the root first; `None` where none can, as a child is always accepted.
    pub bonus: Vec<Option<Distribution>>,
}

impl RejectionLaw {
    /// The law of verifying `drawn` against `target(node)`, 0 being the root.
    pub fn new(drawn: &DrawnTree, mut target: impl FnMut(usize) -> Distribution) -> Self {
        let nodes = drawn.tree().len();
        let mut law = Self { accept: vec![None; nodes], bonus: Vec::with_capacity(nodes + 1) };
        for node in 0..=nodes {
            let trial = Trial::new(target(node), drawn.q(node).cloned());
            let bonus = law.try_children(trial, drawn, node);
            law.bonus.push(bonus);
        }
        law
    }

    /// Tries the children of `node`; what the bonus is drawn from if all can be rejected.
    fn try_children(&mut self, mut trial: Trial, drawn: &DrawnTree, node: usize) -> Option<Distribution> {
        for (child, token) in drawn.children(node) {
            let ratio = trial.ratio(token);
            let rejectable = ratio < 1.0 && trial.reject(token);
            self.accept[child - 1] = Some(if rejectable { ratio } else { 1.0 });
            if !rejectable {
                return None;
            }
        }
        Some(trial.p().clone())
    }

    /// The probability that a walk down `tree`, whose law this is, ends at each node, the root first.
    pub fn ends(&self, tree: &Tree) -> Vec<f64> {
        let mut ends = vec![0.0; tree.len() + 1];
        ends[0] = 1.0;
        // Siblings are in order and after their parent: each takes its share of what those before it left.
        for ((id, node), accept) in (1..).zip(tree.nodes()).zip(&self.accept) {
            let left = ends[node.parent];
            ends[id] = left * accept.unwrap_or(0.0);
            ends[node.parent] = left - ends[id];
        }
        ends
    }
}

/// The probability of every run of tokens that one round can commit, bonus included, over every tree that can be drawn
/// and every way its walk can go.
///
/// A node of depth `d` draws `fan_out[d]` children, fewer where `draft` runs out. `draft` and `target` are given the
/// tokens from below the root to a node. It takes time exponential in the nodes: for checking, on small vocabularies.
///
/// # Errors
/// More than [`DRAWN_TREES_MAX`] trees, or one larger than any tree may be.
pub fn round_law(
    draft: impl Fn(&[Token]) -> Distribution,
    target: impl Fn(&[Token]) -> Distribution,
    fan_out: &[usize],
) -> Result<BTreeMap<Vec<Token>, f64>, LawError> {
    let mut law = BTreeMap::new();
    let mut unfinished = vec![Sketch { tree: Tree::new(), q: Vec::new(), prob: 1.0 }];
    let mut trees = 0;
    while let Some(sketch) = unfinished.pop() {
        if !sketch.is_finished() {
            unfinished.extend(sketch.expanded(&draft, fan_out)?);
            continue;
        }
        trees += 1;
        if trees > DRAWN_TREES_MAX {
            return Err(LawError::TooManyTrees);
        }
        sketch.add_outcomes(&target, &mut law)?;
    }
    Ok(law)
}

/// A tree that is being drawn: the first `q.len()` of its nodes, root included, have drawn their children.
struct Sketch {
    tree: Tree,
    q: Vec<Option<Distribution>>,
    prob: f64,
}

impl Sketch {
    fn is_finished(&self) -> bool {
        self.q.len() == self.tree.len() + 1
    }

    /// The sketches in which the next node has drawn its children, one for each way to draw them.
    fn expanded(&self, draft: &impl Fn(&[Token]) -> Distribution, fan_out: &[usize]) -> Result<Vec<Self>, LawError> {
        let node = self.q.len();
        let depth = self.tree.node(node).map_or(0, |node| node.depth);
        let children = fan_out.get(depth).copied().unwrap_or(0);
        if children == 0 {
            return Ok(vec![self.with_children(node, None, &[], 1.0)?]);
        }
        let q = draft(&tokens_to(&self.tree, node));
        let draws = ordered_draws(&q, children)?;
        draws.iter().map(|Draws { tokens, prob }| self.with_children(node, Some(&q), tokens, *prob)).collect()
    }

    /// The sketch in which `node` has drawn `tokens` from `q`, which happens with probability `prob`.
    fn with_children(
        &self,
        node: usize,
        q: Option<&Distribution>,
        tokens: &[Token],
        prob: f64,
    ) -> Result<Self, LawError> {
        let mut tree = self.tree.clone();
        for &token in tokens {
            tree.push(node, token, q.map_or(1.0, |q| q.prob(token)))?;
        }
        let q = self.q.iter().cloned().chain([q.cloned()]).collect();
        Ok(Self { tree, q, prob: self.prob * prob })
    }

    /// Adds every way that verifying this tree can end to `law`.
    fn add_outcomes(
        self,
        target: &impl Fn(&[Token]) -> Distribution,
        law: &mut BTreeMap<Vec<Token>, f64>,
    ) -> Result<(), LawError> {
        let drawn = DrawnTree::new(self.tree, self.q)?;
        let tree = drawn.tree();
        let walks = RejectionLaw::new(&drawn, |node| target(&tokens_to(tree, node)));
        for ((node, end), bonus) in (0..).zip(walks.ends(tree)).zip(&walks.bonus) {
            let path = tokens_to(tree, node);
            for &(token, prob) in bonus.iter().flat_map(Distribution::tokens) {
                let committed = path.iter().copied().chain([token]).collect();
                *law.entry(committed).or_default() += self.prob * end * prob;
            }
        }
        Ok(())
    }
}

/// Tokens that were drawn one after the other, and how probable that was.
struct Draws {
    tokens: Vec<Token>,
    prob: f64,
}

/// Every way to draw `n` tokens from `q` without replacement, fewer where it runs out, with its probability.
fn ordered_draws(q: &Distribution, n: usize) -> Result<Vec<Draws>, LawError> {
    let mut draws = vec![Draws { tokens: Vec::new(), prob: 1.0 }];
    for _ in 0..n.min(q.tokens().len()) {
        let longer = draws.iter().flat_map(|draw| with_one_more(q, draw));
        draws = longer.take(DRAWN_TREES_MAX + 1).collect();
        if draws.len() > DRAWN_TREES_MAX {
            return Err(LawError::TooManyTrees);
        }
    }
    Ok(draws)
}

/// Every way to go on after what was drawn from `q`.
fn with_one_more(q: &Distribution, Draws { tokens, prob }: &Draws) -> Vec<Draws> {
    let left = tokens.iter().try_fold(q.clone(), |left, &token| left.without(token));
    let longer = |&(token, share): &(Token, f64)| Draws {
        tokens: tokens.iter().copied().chain([token]).collect(),
        prob: prob * share,
    };
    left.iter().flat_map(Distribution::tokens).map(longer).collect()
}

/// The tokens from below the root down to `node`.
fn tokens_to(tree: &Tree, node: usize) -> Vec<Token> {
    tree.path(node).into_iter().filter_map(|id| tree.node(id)).map(|node| node.token).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn distribution(probs: &[f64]) -> Distribution {
        Distribution::from_probs(probs).unwrap()
    }

    #[test]
    fn an_accepted_sibling_hides_those_after_it() {
        let mut tree = Tree::new();
        for token in [0, 1] {
            tree.push(0, token, 0.5).unwrap();
        }
        let drawn = DrawnTree::new(tree, vec![Some(distribution(&[0.5, 0.5])), None, None]).unwrap();
        let law = RejectionLaw::new(&drawn, |_| distribution(&[0.75, 0.25]));
        assert_eq!(law.accept, [Some(1.0), None]);
        assert_eq!(law.bonus[0], None);
        assert_eq!(law.ends(drawn.tree()), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn a_chain_of_one_follows_the_textbook() {
        // Token 1 is drawn half the time and then accepted half the time, token 0 always.
        let law = round_law(|_| distribution(&[0.5, 0.5]), |_| distribution(&[0.75, 0.25]), &[1]).unwrap();
        let first = |token| law.iter().filter(|(run, _)| run[0] == token).map(|(_, prob)| prob).sum::<f64>();
        assert_eq!((first(0), first(1)), (0.75, 0.25));
        assert_eq!(law[&vec![0]], 0.25);
        assert_eq!(law[&vec![1, 0]], 0.25 * 0.75);
    }

    #[test]
    fn without_a_draft_the_law_is_the_targets() {
        let law = round_law(|_| distribution(&[1.0]), |_| distribution(&[0.25, 0.75]), &[]).unwrap();
        assert_eq!(law, BTreeMap::from([(vec![0], 0.25), (vec![1], 0.75)]));
    }

    #[test]
    fn more_trees_than_can_be_gone_through_are_refused() {
        let flat = |_: &[Token]| distribution(&[0.0625; 16]);
        assert_eq!(round_law(flat, flat, &[16]), Err(LawError::TooManyTrees));
    }
}
