//! Which tokens a request may draw from: all, the `top_k`, or the nucleus of `top_p`.

use crate::numeric::{self, Scale, Softmax};
use crate::{Token, select};

/// A nucleus is first looked for among so many best tokens, where it nearly always is.
const NUCLEUS_START: usize = 64;

/// The tokens that may be drawn.
pub(crate) enum Support {
    /// All of them, with these scores.
    Everything(Scale),
    /// Some, with their scores, by rising token; the greatest score is 0.
    Some(Vec<(Token, f64)>),
}

impl Support {
    /// The `top_k` greatest `logits` (0: all), of those the fewest best whose share reaches
    /// `top_p`: a token stays while those before it have less than `top_p`.
    pub(crate) fn new(logits: &[f32], scale: Scale, top_k: usize, top_p: f64) -> Self {
        let k = if top_k == 0 { logits.len() } else { top_k };
        let mut scores = match (k < logits.len(), top_p < 1.0) {
            (false, false) => return Self::Everything(scale),
            (false, true) => nucleus(logits, scale, top_p),
            (true, false) => best(logits, scale, k),
            (true, true) => {
                let best = best(logits, scale, k);
                let target = top_p * Softmax::exact(&best).1.sum;
                cut(&best, target).unwrap_or(best)
            }
        };
        scores.sort_unstable_by_key(|&(token, _)| token);
        Self::Some(scores)
    }
}

/// The `k` tokens of greatest score, best first.
fn best(logits: &[f32], scale: Scale, k: usize) -> Vec<(Token, f64)> {
    let best = select::top(logits, k).into_iter();
    best.map(|(token, logit)| (token, scale.score(logit))).collect()
}

/// The shortest start of `best` whose weight reaches `target`, if any does.
fn cut(best: &[(Token, f64)], target: f64) -> Option<Vec<(Token, f64)>> {
    let mut mass = 0.0;
    let last = best.iter().position(|&(_, score)| {
        mass += libm::exp(score);
        mass >= target
    });
    last.map(|last| best[..=last].to_vec())
}

/// The nucleus of all tokens.
fn nucleus(logits: &[f32], scale: Scale, top_p: f64) -> Vec<(Token, f64)> {
    let weights = numeric::weights(logits, scale);
    let target = top_p * numeric::sum(&weights);
    let narrow = cut(&best(logits, scale, NUCLEUS_START), target);
    narrow.unwrap_or_else(|| wide_nucleus(logits, &weights, scale, target))
}

/// The nucleus of a flat distribution, found without sorting: the tokens above the greatest
/// weight that those from it upwards reach `target` with, and of those at it the first few.
fn wide_nucleus(logits: &[f32], weights: &[f32], scale: Scale, target: f64) -> Vec<(Token, f64)> {
    let edge = edge(weights, target);
    let mut missing = target - numeric::sum_above(weights, edge);
    let mut inside = |weight: f32| {
        if weight == edge && missing > 0.0 {
            missing -= f64::from(weight);
            return true;
        }
        weight > edge
    };
    let tokens = scale.scores(logits).zip(weights);
    tokens.filter(|&(_, &weight)| inside(weight)).map(|(score, _)| score).collect()
}

/// The greatest weight at which the sum of all weights from it upwards reaches `target`: bisected
/// over bit patterns, which order non-negative floats as their values do.
fn edge(weights: &[f32], target: f64) -> f32 {
    let (mut reached, mut missed) = (0, 1.0_f32.to_bits() + 1);
    while missed - reached > 1 {
        let middle = reached + (missed - reached) / 2;
        // From `middle` upwards is above the pattern before it.
        if numeric::sum_above(weights, f32::from_bits(middle - 1)) >= target {
            reached = middle;
        } else {
            missed = middle;
        }
    }
    f32::from_bits(reached)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// The tokens that may be drawn at temperature 1.
    fn support(logits: &[f32], top_k: usize, top_p: f64) -> Vec<Token> {
        let scale = Scale::new(numeric::peak(logits).unwrap(), 1.0);
        match Support::new(logits, scale, top_k, top_p) {
            Support::Everything(_) => (0..logits.len() as Token).collect(),
            Support::Some(scores) => scores.into_iter().map(|(token, _)| token).collect(),
        }
    }

    /// Probabilities 0.1, 0.4, 0.2 and 0.3.
    fn logits() -> [f32; 4] {
        [0.1_f32, 0.4, 0.2, 0.3].map(f32::ln)
    }

    #[test]
    fn top_k_keeps_the_most_probable() {
        assert_eq!(support(&logits(), 2, 1.0), [1, 3]);
        assert_eq!(support(&logits(), 0, 1.0), [0, 1, 2, 3]);
        assert_eq!(support(&logits(), 99, 1.0), [0, 1, 2, 3]);
    }

    #[test]
    fn top_p_keeps_a_token_while_those_before_it_have_less() {
        assert_eq!(support(&logits(), 0, 0.001), [1]);
        assert_eq!(support(&logits(), 0, 0.65), [1, 3]);
        assert_eq!(support(&logits(), 0, 0.75), [1, 2, 3]);
        assert_eq!(support(&logits(), 0, 0.999), [0, 1, 2, 3]);
    }

    #[test]
    fn top_p_is_taken_of_what_top_k_leaves() {
        // Of 0.4 and 0.3 the first has more than half.
        assert_eq!(support(&logits(), 2, 0.55), [1]);
        assert_eq!(support(&logits(), 2, 0.6), [1, 3]);
    }

    #[test]
    fn equals_are_kept_by_smaller_token() {
        assert_eq!(support(&[0.0; 1000], 3, 1.0), [0, 1, 2]);
        assert_eq!(support(&[0.0; 1000], 0, 0.0025), [0, 1, 2]);
        assert_eq!(support(&[0.0; 1000], 0, 0.4995).len(), 500);
    }

    proptest! {
        #[test]
        fn a_wide_nucleus_is_that_of_the_sorted_tokens(
            logits in prop::collection::vec((-40_i8..40).prop_map(|x| f32::from(x) / 16.0), 1..500),
            top_p in 0.01_f64..0.99
        ) {
            let scale = Scale::new(numeric::peak(&logits).unwrap(), 1.0);
            let weights = numeric::weights(&logits, scale);
            let target = top_p * numeric::sum(&weights);
            let wide = wide_nucleus(&logits, &weights, scale, target);
            let mut sorted = cut(&best(&logits, scale, logits.len()), target).unwrap();
            sorted.sort_unstable_by_key(|&(token, _)| token);
            prop_assert_eq!(wide, sorted);
        }
    }
}
