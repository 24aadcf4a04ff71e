//! The drafter's half of rejection acceptance: children drawn from the draft distribution without replacement.

use crate::uniforms::next_uniform;
use crate::{Candidates, Distribution, Token, UniformError};

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
/// of the whole distribution, and a prediction stays. `q` is what must travel with the tree.
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
