//! What the drafter says about the next token of one node: its best candidates, and how sure it is.

use std::cmp::Ordering;

use crate::Token;
use crate::numeric::{self, LogitsError, Scale, Softmax};
use crate::select;
use crate::shape::Shape;

/// Why a distribution was refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum CandidateError {
    /// A probability that is not finite or outside [0, 1].
    #[error("token {token} has probability {prob}, which is not between 0 and 1")]
    Probability {
        /// The token at fault.
        token: usize,
        /// Its probability.
        prob: f64,
    },
    /// A prediction that is not finite or outside [0, 1].
    #[error("the predicted chance of acceptance is {prob}, which is not between 0 and 1")]
    Prediction {
        /// The prediction.
        prob: f64,
    },
}

/// The best tokens of one draft distribution, best first, with the shape of the whole.
///
/// Tokens are distinct and none has probability 0, so there may be fewer than were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidates {
    tokens: Vec<(Token, f64)>,
    shape: Shape,
    predicted: Option<f64>,
}

impl Candidates {
    /// From parts that already keep this type's promises.
    pub(crate) fn from_parts(tokens: Vec<(Token, f64)>, shape: Shape) -> Self {
        Self { tokens, shape, predicted: None }
    }

    /// A token that nothing else can stand in for.
    pub fn certain(token: Token) -> Self {
        Self::from_parts(vec![(token, 1.0)], Shape { confidence: 1.0, entropy: 0.0 })
    }

    /// The same distribution with these tokens of it instead.
    pub(crate) fn with_tokens(&self, tokens: Vec<(Token, f64)>) -> Self {
        Self { tokens, ..*self }
    }

    /// The same, with a trained predictor's chance that the target takes the token drafted here, in [0, 1].
    ///
    /// # Errors
    /// A chance that is not finite or outside [0, 1].
    pub fn predicting(self, chance: f64) -> Result<Self, CandidateError> {
        if !(0.0..=1.0).contains(&chance) {
            return Err(CandidateError::Prediction { prob: chance });
        }
        Ok(Self { predicted: Some(chance), ..self })
    }

    /// The `k` most probable tokens of `probs` (one probability a token), in exact `f64`.
    ///
    /// Equal probabilities are ranked by smaller token. The sum is not checked.
    ///
    /// # Errors
    /// A probability that is not finite or outside [0, 1].
    pub fn from_probs(probs: &[f64], k: usize) -> Result<Self, CandidateError> {
        let valid = |prob: &f64| (0.0..=1.0).contains(prob);
        if let Some(token) = probs.iter().position(|prob| !valid(prob)) {
            let prob = probs[token];
            return Err(CandidateError::Probability { token, prob });
        }
        let mut tokens: Vec<(Token, f64)> = (0..).zip(probs.iter().copied()).collect();
        tokens.retain(|&(_, prob)| prob > 0.0);
        tokens.sort_unstable_by(best_first);
        let shape = Shape { confidence: tokens.first().map_or(0.0, |&(_, prob)| prob), entropy: entropy(probs) };
        tokens.truncate(k);
        Ok(Self::from_parts(tokens, shape))
    }

    /// The `k` most probable tokens of the softmax of `logits` at temperature 1.
    ///
    /// Tokens are ranked by logit, equal logits by smaller token. Probabilities, confidence and
    /// entropy are within a relative 1e-6 of the exact softmax: enough for drafting, where they
    /// steer how much is proposed and never what is committed.
    ///
    /// # Errors
    /// No logits, a NaN or plus infinity among them, or all minus infinity.
    pub fn from_logits(logits: &[f32], k: usize) -> Result<Self, LogitsError> {
        Ok(Self::of_vocabulary(logits, Scale::new(numeric::peak(logits)?, 1.0), k))
    }

    /// The same of the softmax of the scores that `scale` gives `logits`.
    pub(crate) fn of_vocabulary(logits: &[f32], scale: Scale, k: usize) -> Self {
        let softmax = Softmax::over(logits, scale);
        let best = select::top(logits, k).into_iter();
        let probs = best.map(|(token, logit)| (token, softmax.prob(scale.score(logit))));
        Self::from_parts(probs.filter(|&(_, prob)| prob > 0.0).collect(), softmax.shape())
    }

    /// The `k` most probable tokens of the softmax of `scores`, in exact `f64`.
    pub(crate) fn of_scores(mut scores: Vec<(Token, f64)>, k: usize) -> Self {
        scores.sort_unstable_by(best_first);
        let (best, softmax) = Softmax::exact(&scores);
        let probs = scores.into_iter().take(k).map(|(token, score)| (token, softmax.prob(score - best)));
        Self::from_parts(probs.filter(|&(_, prob)| prob > 0.0).collect(), softmax.shape())
    }

    /// The candidates with their probabilities in (0, 1], best first.
    pub fn tokens(&self) -> &[(Token, f64)] {
        &self.tokens
    }

    /// The greatest probability of the distribution, in [0, 1].
    pub fn confidence(&self) -> f64 {
        self.shape.confidence
    }

    /// Entropy of the distribution in nats, over the whole vocabulary.
    pub fn entropy(&self) -> f64 {
        self.shape.entropy
    }

    /// Confidence and entropy together.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The chance, in [0, 1], that a trained predictor gives the token drafted here; `None` without a predictor.
    pub fn predicted(&self) -> Option<f64> {
        self.predicted
    }
}

/// Falling value, equal values by smaller token.
pub(crate) fn best_first(a: &(Token, f64), b: &(Token, f64)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

fn entropy(probs: &[f64]) -> f64 {
    let terms = probs.iter().filter(|&&prob| prob > 0.0);
    -terms.map(|&prob| prob * libm::log(prob)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_most_probable_come_first_and_equals_by_smaller_token() {
        let candidates = Candidates::from_probs(&[0.25, 0.0, 0.5, 0.25], 2).unwrap();
        assert_eq!(candidates.tokens(), [(2, 0.5), (0, 0.25)]);
        assert_eq!(candidates.confidence(), 0.5);
        assert!((candidates.entropy() - 1.5 * std::f64::consts::LN_2).abs() < 1e-15);
    }

    #[test]
    fn a_token_of_probability_0_is_no_candidate() {
        assert_eq!(Candidates::from_probs(&[0.0, 1.0], 5).unwrap().tokens(), [(1, 1.0)]);
        let logits = [f32::NEG_INFINITY, 1.0, -1000.0];
        assert_eq!(Candidates::from_logits(&logits, 5).unwrap().tokens(), [(1, 1.0)]);
    }

    #[test]
    fn an_impossible_probability_is_refused_by_name() {
        let error = Candidates::from_probs(&[0.5, -0.5], 1).unwrap_err();
        assert_eq!(error.to_string(), "token 1 has probability -0.5, which is not between 0 and 1");
        assert!(Candidates::from_probs(&[f64::NAN], 1).is_err());
        assert_eq!(Candidates::from_logits(&[f32::NAN], 1), Err(LogitsError::NotFinite { token: 0 }));
    }

    #[test]
    fn a_prediction_is_a_chance_and_stays_with_the_distribution() {
        let candidates = Candidates::from_probs(&[0.5, 0.5], 2).unwrap();
        assert_eq!(candidates.predicted(), None);
        let error = candidates.clone().predicting(1.5).unwrap_err();
        assert_eq!(error.to_string(), "the predicted chance of acceptance is 1.5, which is not between 0 and 1");
        assert!(candidates.clone().predicting(f64::NAN).is_err());
        assert_eq!(candidates.predicting(0.25).unwrap().with_tokens(vec![]).predicted(), Some(0.25));
    }

    #[test]
    fn shape_is_that_of_the_whole_distribution_however_few_are_asked_for() {
        let shape = |k| Candidates::from_logits(&[1.0, 2.0, 0.5], k).unwrap().shape();
        assert_eq!(shape(0), shape(3));
    }

    proptest! {
        #[test]
        fn logits_agree_with_their_exact_softmax(
            logits in prop::collection::vec(-20.0_f32..20.0, 1..300), k in 1_usize..80
        ) {
            let peak = logits.iter().copied().fold(f32::MIN, f32::max);
            let weights: Vec<f64> = logits.iter().map(|&x| (f64::from(x) - f64::from(peak)).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let exact = Candidates::from_probs(&weights.iter().map(|w| w / sum).collect::<Vec<_>>(), k).unwrap();
            let found = Candidates::from_logits(&logits, k).unwrap();
            prop_assert_eq!(found.tokens().len(), exact.tokens().len());
            for (found, exact) in found.tokens().iter().zip(exact.tokens()) {
                prop_assert_eq!(found.0, exact.0);
                prop_assert!((found.1 / exact.1 - 1.0).abs() < 1e-6);
            }
            prop_assert!((found.confidence() / exact.confidence() - 1.0).abs() < 1e-6);
            prop_assert!((found.entropy() - exact.entropy()).abs() < 1e-5);
        }
    }
}
