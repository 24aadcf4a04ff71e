//! What the target thought of a token, and of those that it might have said instead.

use crate::numeric::{self, LogitsError, Scale, Softmax};
use crate::{Token, select};

/// The most alternatives that may be asked for with a token.
pub const LOGPROBS_MAX: usize = 20;

/// Log-probabilities of a token and of the most probable ones in its place.
///
/// They are those of the target's own distribution: the log-softmax of its logits as they are, at temperature 1, before
/// bias, penalties and cuts. This is what OpenAI's interface and vLLM report.
#[derive(Debug, Clone, PartialEq)]
pub struct Logprobs {
    /// Natural logarithm of the token's probability: finite for whatever was decided, at most 0.
    pub chosen: f64,
    /// The most probable tokens, best first (ties: smaller token). The chosen one is among them if it is one of these.
    /// Impossible tokens are left out, so there may be fewer than were asked for.
    pub top: Vec<(Token, f64)>,
}

impl Logprobs {
    /// Of `token` and the `top` most probable ones under `logits`, each within 1e-6 of its exact value and the same
    /// bits on every machine. A token beyond the logits is impossible.
    ///
    /// # Errors
    /// No logits, a NaN or plus infinity among them, or all minus infinity.
    pub fn new(logits: &[f32], token: Token, top: usize) -> Result<Self, LogitsError> {
        let scale = Scale::new(numeric::peak(logits)?, 1.0);
        let total = libm::log(Softmax::over(logits, scale).sum);
        // Rounding must not make anything more than certain.
        let logprob = |logit: f32| (scale.score(logit) - total).min(0.0);
        let best = select::top(logits, top).into_iter();
        Ok(Self {
            chosen: logits.get(token as usize).map_or(f64::NEG_INFINITY, |&logit| logprob(logit)),
            top: best.map(|(token, logit)| (token, logprob(logit))).filter(|(_, prob)| prob.is_finite()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-6
    }

    #[test]
    fn they_are_logarithms_of_the_softmax() {
        let logits = [0.1_f32, 0.4, 0.2, 0.3].map(f32::ln);
        let logprobs = Logprobs::new(&logits, 0, 2).unwrap();
        assert!(close(logprobs.chosen, 0.1_f64.ln()), "{logprobs:?}");
        let [(1, first), (3, second)] = logprobs.top[..] else { panic!("{logprobs:?}") };
        assert!(close(first, 0.4_f64.ln()) && close(second, 0.3_f64.ln()), "{logprobs:?}");
    }

    #[test]
    fn a_shift_of_all_logits_changes_nothing() {
        let logprobs = |shift: f32| Logprobs::new(&[1.0, 2.0, 4.0].map(|logit| logit + shift), 1, 3).unwrap();
        assert_eq!(logprobs(0.0), logprobs(-64.0));
    }

    #[test]
    fn what_is_impossible_is_no_alternative() {
        let logprobs = Logprobs::new(&[f32::NEG_INFINITY, 0.0], 1, 20).unwrap();
        assert_eq!(logprobs, Logprobs { chosen: 0.0, top: vec![(1, 0.0)] });
        assert_eq!(Logprobs::new(&[0.0], 7, 0).unwrap().chosen, f64::NEG_INFINITY);
    }

    #[test]
    fn logits_that_decide_nothing_are_an_error() {
        assert_eq!(Logprobs::new(&[], 0, 1), Err(LogitsError::Empty));
        assert_eq!(Logprobs::new(&[1.0, f32::NAN], 0, 1), Err(LogitsError::NotFinite { token: 1 }));
    }

    proptest! {
        #[test]
        fn they_agree_with_exact_arithmetic(
            logits in prop::collection::vec(-20.0_f32..20.0, 1..300), token: prop::sample::Index, top in 0_usize..25
        ) {
            let token = token.index(logits.len());
            let peak = logits.iter().copied().fold(f32::MIN, f32::max);
            let total = logits.iter().map(|&x| (f64::from(x) - f64::from(peak)).exp()).sum::<f64>().ln();
            let exact = |token: usize| f64::from(logits[token]) - f64::from(peak) - total;
            let found = Logprobs::new(&logits, token as Token, top).unwrap();
            prop_assert!(close(found.chosen, exact(token)));
            prop_assert_eq!(found.top.len(), top.min(logits.len()));
            prop_assert!(found.top.is_sorted_by(|a, b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)));
            prop_assert!(found.top.iter().all(|&(token, prob)| close(prob, exact(token as usize)) && prob <= 0.0));
        }
    }
}
