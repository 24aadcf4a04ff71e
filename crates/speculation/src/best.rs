//! The best tokens of a row of logits: all that greedy decisions and guesses at them need of it.
//!
//! Whoever has the logits, perhaps a device that has a part of them, says what is best among its own; what parts say is put
//! together here.

use crate::numeric::{self, LogitsError, Scale, Softmax};
use crate::{Candidates, Token, select};

/// What is said of a part of a vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub struct BestOfPart {
    /// The greatest logits above minus infinity, best first (ties: smaller token).
    pub tokens: Vec<(Token, f32)>,
    /// Sum of `exp(x)` over the part's logits, `x` being a logit relative to the greatest of the part.
    pub sum: f64,
    /// Sum of `exp(x) * x`.
    pub moment: f64,
    /// The first token whose logit is NaN or plus infinity.
    pub faulty: Option<Token>,
}

/// The best tokens of a row of logits, at least one, and the softmax over all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    tokens: Vec<(Token, f32)>,
    softmax: Softmax,
}

impl BestOfPart {
    /// The `count` best tokens of a part whose first token is `first`.
    pub fn new(logits: &[f32], first: Token, count: usize) -> Self {
        let tokens = select::top(logits, count.max(1)).into_iter().map(|(token, logit)| (first + token, logit));
        match numeric::peak(logits) {
            Ok(peak) => {
                let Softmax { sum, moment } = Softmax::over(logits, Scale::new(peak, 1.0));
                let possible = tokens.filter(|(_, logit)| *logit > f32::NEG_INFINITY);
                Self { tokens: possible.collect(), sum, moment, faulty: None }
            }
            Err(LogitsError::NotFinite { token }) => Self { faulty: Some(first + token as Token), ..Self::none() },
            // Nothing is forbidden here.
            Err(LogitsError::Empty | LogitsError::NothingPossible { .. } | LogitsError::Restriction(_)) => Self::none(),
        }
    }

    /// A part of which no token is possible.
    fn none() -> Self {
        Self { tokens: Vec::new(), sum: 0.0, moment: 0.0, faulty: None }
    }
}

impl Best {
    /// The `count` best tokens of `vocab` that lie in these parts.
    ///
    /// # Errors
    /// As for [`crate::arg_max`] over the whole.
    pub fn of_parts(parts: &[BestOfPart], vocab: usize, count: usize) -> Result<Self, LogitsError> {
        if let Some(token) = parts.iter().filter_map(|part| part.faulty).min() {
            return Err(LogitsError::NotFinite { token: token as usize });
        }
        let mut tokens: Vec<(Token, f32)> = parts.iter().flat_map(|part| part.tokens.iter().copied()).collect();
        tokens.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let &(_, peak) = tokens.first().ok_or(match vocab {
            0 => LogitsError::Empty,
            _ => LogitsError::NothingPossible { vocab },
        })?;
        let mut softmax = Softmax { sum: 0.0, moment: 0.0 };
        for BestOfPart { tokens, sum, moment, .. } in parts {
            let Some(&(_, own)) = tokens.first() else { continue };
            // x relative to the whole's greatest is x relative to the part's, and this.
            let behind = f64::from(own) - f64::from(peak);
            let weight = libm::exp(behind);
            softmax.sum += weight * sum;
            softmax.moment += weight * (moment + sum * behind);
        }
        tokens.truncate(count.max(1));
        Ok(Self { tokens, softmax })
    }

    /// The most probable token (ties: smaller token).
    pub fn arg_max(&self) -> Token {
        self.tokens.first().map_or(0, |&(token, _)| token)
    }

    /// The `k` most probable tokens, as far as they are known, of the softmax at temperature 1: see
    /// [`Candidates::from_logits`].
    pub fn candidates(&self, k: usize) -> Candidates {
        let peak = self.tokens.first().map_or(0.0, |&(_, logit)| f64::from(logit));
        let best = self.tokens.iter().take(k).map(|&(token, logit)| (token, f64::from(logit) - peak));
        let probs = best.map(|(token, score)| (token, self.softmax.prob(score))).filter(|&(_, prob)| prob > 0.0);
        Candidates::from_parts(probs.collect(), self.softmax.shape())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::arg_max;

    /// The best of `logits` in parts of so many tokens.
    fn best(logits: &[f32], each: usize, count: usize) -> Result<Best, LogitsError> {
        let parts = logits.chunks(each).enumerate();
        let parts: Vec<BestOfPart> = parts.map(|(i, part)| BestOfPart::new(part, (i * each) as Token, count)).collect();
        Best::of_parts(&parts, logits.len(), count)
    }

    #[test]
    fn what_decides_nothing_is_an_error_wherever_it_lies() {
        let nothing = [f32::NEG_INFINITY; 5];
        assert_eq!(best(&nothing, 2, 3), Err(LogitsError::NothingPossible { vocab: 5 }));
        assert_eq!(best(&[], 2, 3), Err(LogitsError::Empty));
        assert_eq!(best(&[0.0, 1.0, f32::NAN, f32::INFINITY], 2, 3), Err(LogitsError::NotFinite { token: 2 }));
    }

    #[test]
    fn a_part_of_which_nothing_is_possible_adds_nothing() {
        let logits = [f32::NEG_INFINITY, f32::NEG_INFINITY, 1.0, 1.0];
        let best = best(&logits, 2, 3).unwrap();
        assert_eq!(best.arg_max(), 2);
        assert_eq!(best.candidates(3), Candidates::from_logits(&logits, 3).unwrap());
    }

    proptest! {
        #[test]
        fn parts_say_what_the_whole_says(
            logits in prop::collection::vec(-9_i8..9, 1..200), each in 1_usize..80, k in 1_usize..12
        ) {
            let logits: Vec<f32> = logits.into_iter().map(|logit| f32::from(logit) / 2.0).collect();
            let best = best(&logits, each, k).unwrap();
            prop_assert_eq!(Ok(best.arg_max()), arg_max(&logits));
            let (found, whole) = (best.candidates(k), Candidates::from_logits(&logits, k).unwrap());
            prop_assert!(found.tokens().iter().map(|&(token, _)| token).eq(whole.tokens().iter().map(|&(token, _)| token)));
            let pairs = found.tokens().iter().zip(whole.tokens());
            prop_assert!(pairs.into_iter().all(|(found, whole)| (found.1 - whole.1).abs() < 1e-6));
            prop_assert!((found.entropy() - whole.entropy()).abs() < 1e-5);
            prop_assert!((found.confidence() - whole.confidence()).abs() < 1e-6);
        }
    }
}
