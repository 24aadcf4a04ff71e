//! `rejection`: accept a drafted token with probability `min(1, p/q)`, else go on with the residual (speculative
//! sampling; on a tree, recursive rejection over siblings drawn without replacement).
//!
//! It promises the target's distribution, not its text. The siblings of a node are tried in the order they were drawn;
//! each rejection replaces `p` by the normalised residual `max(p - q, 0)` and `q` by the distribution without the
//! rejected token. Nothing here is random: uniform draws are an input.

mod drawn;
mod law;
mod trial;

pub use drawn::{DrawnTree, DrawnTreeError};
pub use law::{DRAWN_TREES_MAX, LawError, RejectionLaw, round_law};

use super::Walk;
use crate::uniforms::next_uniform;
use crate::{AcceptError, Distribution, Sampler, Side, UniformError};
use trial::Trial;

/// Verifies `drawn` against the target's distributions.
///
/// `target(node)` gives `p` at a node (0 is the root), cut and shaped as the request wants; only nodes on the accepted
/// path are asked for. One of `uniforms` is used for each sibling tried, also where acceptance is certain, and one for
/// the bonus, by inverse CDF in order of token.
///
/// # Errors
/// The first error of `target`; a uniform draw that is not in [0, 1), or too few of them.
///
/// # Examples
/// ```
/// use espalier_speculation::{Distribution, DrawnTree, Tree, UniformError, accept_by_rejection};
/// let mut tree = Tree::new();
/// let first = tree.push(0, 1, 0.5)?;
/// let q = Distribution::from_probs(&[0.5, 0.5])?;
/// let p = Distribution::from_probs(&[0.75, 0.25])?;
/// let drawn = DrawnTree::new(tree, vec![Some(q), None])?;
/// let target = |_| Ok::<_, UniformError>(p.clone());
/// // Token 1 is accepted below 0.25 / 0.5; where it is not, only token 0 is left.
/// assert_eq!(accept_by_rejection(&drawn, target, &mut [0.4, 0.9].into_iter())?.path, [first]);
/// assert_eq!(accept_by_rejection(&drawn, target, &mut [0.6, 0.9].into_iter())?.bonus, 0);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn accept_by_rejection<E: From<UniformError>>(
    drawn: &DrawnTree,
    mut target: impl FnMut(usize) -> Result<Distribution, E>,
    uniforms: &mut impl Iterator<Item = f64>,
) -> Result<Walk, E> {
    let (mut path, mut at) = (Vec::new(), 0);
    loop {
        let mut trial = Trial::new(target(at)?, drawn.q(at).cloned());
        match first_accepted(&mut trial, drawn, at, uniforms)? {
            Some(child) => {
                path.push(child);
                at = child;
            }
            None => return Ok(Walk { path, bonus: trial.p().at(next_uniform(uniforms)?) }),
        }
    }
}

/// Verifies `drawn` against the target's logits; `sampler` holds the request's parameters and the text up to the root,
/// and is left as it was.
///
/// `p` at a node is what the request's parameters make of `logits(node)` after the node's own path, and the uniform
/// draws are the verifier's for this root and seed: a round that is run again goes the same way.
///
/// # Errors
/// Logits that allow no decision: empty, NaN, plus infinity, or all minus infinity.
pub fn accept_drawn<'a>(
    drawn: &DrawnTree,
    sampler: &mut Sampler,
    mut logits: impl FnMut(usize) -> &'a [f32],
) -> Result<Walk, AcceptError> {
    let mut uniforms = sampler.uniforms(Side::Verification);
    let mut path = Vec::new();
    let target = |node| {
        // The walk goes down, so each node it asks about extends the path; the root has no token of its own.
        path.extend(drawn.tree().node(node).map(|node| node.token));
        Ok(sampler.distribution(logits(node), &path)?)
    };
    accept_by_rejection(drawn, target, &mut uniforms)
}

/// The first child of node `at` that is accepted; those before it are rejected in `trial`.
fn first_accepted(
    trial: &mut Trial,
    drawn: &DrawnTree,
    at: usize,
    uniforms: &mut impl Iterator<Item = f64>,
) -> Result<Option<usize>, UniformError> {
    for (child, token) in drawn.children(at) {
        if next_uniform(uniforms)? < trial.ratio(token) || !trial.reject(token) {
            return Ok(Some(child));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Tree;

    fn distribution(probs: &[f64]) -> Distribution {
        Distribution::from_probs(probs).unwrap()
    }

    /// The tree `1 (0) 2` below the root, drawn from `q` everywhere.
    fn drawn(q: &[f64]) -> DrawnTree {
        let mut tree = Tree::new();
        for (parent, token) in [(0, 1), (0, 2), (1, 0)] {
            tree.push(parent, token, 0.5).unwrap();
        }
        let q = Some(distribution(q));
        DrawnTree::new(tree, vec![q.clone(), q, None, None]).unwrap()
    }

    fn walk(p: &[f64], q: &[f64], uniforms: &[f64]) -> Result<Walk, UniformError> {
        accept_by_rejection(&drawn(q), |_| Ok(distribution(p)), &mut uniforms.iter().copied())
    }

    #[test]
    fn siblings_are_tried_in_order_each_with_its_own_draw() {
        let (p, q) = ([0.25, 0.125, 0.625], [0.25, 0.5, 0.25]);
        // Token 1 at 1/4; then p' is all on token 2; then the bonus.
        assert_eq!(walk(&p, &q, &[0.25, 0.9, 0.3]), Ok(Walk { path: vec![2], bonus: 1 }));
        // Token 1, below it token 0 at 1, then the bonus.
        assert_eq!(walk(&p, &q, &[0.2, 0.9, 0.9]), Ok(Walk { path: vec![1, 3], bonus: 2 }));
    }

    #[test]
    fn when_every_sibling_is_rejected_the_bonus_is_of_the_last_residual() {
        let (p, q) = ([0.75, 0.125, 0.125], [0.25, 0.5, 0.25]);
        assert_eq!(walk(&p, &q, &[0.5, 0.5, 0.99]), Ok(Walk { path: vec![], bonus: 0 }));
    }

    #[test]
    fn a_token_that_the_target_never_says_is_never_accepted() {
        let walk = walk(&[1.0, 0.0, 0.0], &[0.5, 0.25, 0.25], &[0.0, 0.0, 0.0]).unwrap();
        assert_eq!(walk, Walk { path: vec![], bonus: 0 });
    }

    #[test]
    fn equal_distributions_reject_nothing_whatever_rounding_does() {
        // The sum of q rounds to 1 all the same, so its token 1 has an ulp more than p's and a ratio below the draw.
        let (p, q) = ([0.5, 0.25, 0.25], [0.5, 0.25_f64.next_up(), 0.25]);
        assert!(distribution(&p).prob(1) < distribution(&q).prob(1));
        let walk = walk(&p, &q, &[1.0_f64.next_down(); 3]).unwrap();
        assert_eq!(walk.path, [1, 3]);
    }

    #[test]
    fn only_nodes_on_the_way_are_asked_for() {
        let mut asked = Vec::new();
        let target = |node| {
            asked.push(node);
            Ok::<_, UniformError>(distribution(&[0.0, 0.0, 1.0]))
        };
        accept_by_rejection(&drawn(&[0.25, 0.5, 0.25]), target, &mut [0.5; 3].into_iter()).unwrap();
        assert_eq!(asked, [0, 2]);
    }

    #[test]
    fn a_fault_of_the_target_or_of_a_draw_ends_the_walk() {
        let (p, q) = ([0.25, 0.125, 0.625], [0.25, 0.5, 0.25]);
        assert_eq!(walk(&p, &q, &[0.25]), Err(UniformError::Exhausted));
        assert_eq!(walk(&p, &q, &[2.0]), Err(UniformError::Range { found: 2.0 }));
        let faulty = |_| Err(UniformError::Exhausted);
        assert!(accept_by_rejection(&drawn(&q), faulty, &mut [0.5; 3].into_iter()).is_err());
    }
}
