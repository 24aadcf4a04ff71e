//! A probability distribution over tokens, exact in `f64`: what rejection acceptance weighs and draws from.

use crate::{Candidates, Token};

/// How far the sum of the probabilities given may be from 1: what rounding them to `f32` does.
pub const PROBABILITY_SUM_SLACK: f64 = 1e-6;

/// Why probabilities are no distribution.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum DistributionError {
    /// A probability that is not finite or outside [0, 1].
    #[error("token {token} has probability {prob}, which is not between 0 and 1")]
    Probability {
        /// The token at fault.
        token: Token,
        /// Its probability.
        prob: f64,
    },
    /// A token given more than once.
    #[error("token {token} is given more than one probability")]
    Repeated {
        /// The token.
        token: Token,
    },
    /// Probabilities that do not sum to 1.
    #[error("the probabilities sum to {sum}, which is not within {PROBABILITY_SUM_SLACK} of 1")]
    Sum {
        /// Their sum.
        sum: f64,
    },
    /// Nothing to choose from.
    #[error("no token is possible")]
    Nothing,
}

/// The tokens of probability above 0, at least one, with probabilities that sum to 1 but for rounding.
///
/// Equal input gives equal bits, so a drafter that sends what it built its distribution from knows the distribution
/// that the verifier will see.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// By rising token.
    tokens: Vec<(Token, f64)>,
}

impl Distribution {
    /// From one probability a token, for the whole vocabulary.
    ///
    /// # Errors
    /// A probability that is not finite or outside [0, 1]; a sum other than 1.
    pub fn from_probs(probs: &[f64]) -> Result<Self, DistributionError> {
        Self::from_pairs((0..).zip(probs.iter().copied()).collect())
    }

    /// From the probabilities of some tokens, in any order; all others have 0.
    ///
    /// # Errors
    /// A probability that is not finite or outside [0, 1]; a token given twice; a sum other than 1.
    pub fn from_pairs(mut pairs: Vec<(Token, f64)>) -> Result<Self, DistributionError> {
        if let Some(&(token, prob)) = pairs.iter().find(|(_, prob)| !(0.0..=1.0).contains(prob)) {
            return Err(DistributionError::Probability { token, prob });
        }
        pairs.sort_unstable_by_key(|&(token, _)| token);
        if let Some(&[(token, _), _]) = pairs.array_windows().find(|[a, b]| a.0 == b.0) {
            return Err(DistributionError::Repeated { token });
        }
        let sum = total(&pairs);
        if (sum - 1.0).abs() > PROBABILITY_SUM_SLACK {
            return Err(DistributionError::Sum { sum });
        }
        Self::normalised(pairs).ok_or(DistributionError::Nothing)
    }

    /// Draft distribution truncated to its `candidates` and renormalised.
    ///
    /// # Errors
    /// No candidate at all.
    ///
    /// # Examples
    /// ```
    /// use espalier_speculation::{Candidates, Distribution};
    /// let best = Candidates::from_probs(&[0.25, 0.25, 0.5, 0.0], 2)?;
    /// assert_eq!(Distribution::of_candidates(&best)?.tokens(), [(0, 0.25 / 0.75), (2, 0.5 / 0.75)]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_candidates(candidates: &Candidates) -> Result<Self, DistributionError> {
        let mut tokens = candidates.tokens().to_vec();
        tokens.sort_unstable_by_key(|&(token, _)| token);
        Self::normalised(tokens).ok_or(DistributionError::Nothing)
    }

    /// All on one token.
    pub fn certain(token: Token) -> Self {
        Self { tokens: vec![(token, 1.0)] }
    }

    /// In proportion to `weights`, which are not negative and come by rising token; `None` if all are 0.
    pub(crate) fn of_weights(weights: Vec<(Token, f64)>) -> Option<Self> {
        Self::normalised(weights)
    }

    /// The possible tokens with their probabilities in (0, 1], by rising token.
    pub fn tokens(&self) -> &[(Token, f64)] {
        &self.tokens
    }

    /// The probability of `token`, in [0, 1].
    pub fn prob(&self, token: Token) -> f64 {
        self.index_of(token).map_or(0.0, |index| self.tokens[index].1)
    }

    /// Inverse CDF: the smallest token whose cumulative probability, summed in order of token, exceeds `u`; the last
    /// possible token where rounding leaves the sum of all short of `u`.
    pub fn at(&self, u: f64) -> Token {
        let (mut last, mut cumulative) = (0, 0.0);
        for &(token, prob) in &self.tokens {
            last = token;
            cumulative += prob;
            if cumulative > u {
                break;
            }
        }
        last
    }

    /// The same, given that it is not `token`; `None` if no other is possible.
    #[must_use]
    pub fn without(&self, token: Token) -> Option<Self> {
        let others = self.tokens.iter().filter(|&&(other, _)| other != token);
        Self::normalised(others.copied().collect())
    }

    /// The residual `norm(max(self - other, 0))`; `None` where `self` nowhere exceeds `other`: then the two are equal,
    /// but for rounding.
    #[must_use]
    pub fn exceeding(&self, other: &Self) -> Option<Self> {
        let mut rest = self.tokens.clone();
        for &(token, prob) in &other.tokens {
            if let Some(index) = self.index_of(token) {
                rest[index].1 = (rest[index].1 - prob).max(0.0);
            }
        }
        Self::normalised(rest)
    }

    fn index_of(&self, token: Token) -> Option<usize> {
        self.tokens.binary_search_by_key(&token, |&(token, _)| token).ok()
    }

    /// `weights`, by rising token, divided by their sum; `None` if all are 0. Where rounding alone keeps the sum from being 1,
    /// they were divided by it before, and stay as they are: a distribution that is sent on is the same one.
    fn normalised(mut weights: Vec<(Token, f64)>) -> Option<Self> {
        weights.retain(|&(_, weight)| weight > 0.0);
        let (sum, rounding) = (total(&weights), weights.len() as f64 * f64::EPSILON);
        let sum = if (sum - 1.0).abs() <= rounding { 1.0 } else { sum };
        for (_, weight) in &mut weights {
            *weight = (*weight / sum).min(1.0);
        }
        (!weights.is_empty()).then_some(Self { tokens: weights })
    }
}

/// The sum, in order of token.
fn total(tokens: &[(Token, f64)]) -> f64 {
    tokens.iter().fold(0.0, |sum, &(_, prob)| sum + prob)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn distribution(probs: &[f64]) -> Distribution {
        Distribution::from_probs(probs).unwrap()
    }

    #[test]
    fn only_possible_tokens_are_kept() {
        assert_eq!(distribution(&[0.5, 0.0, 0.5]).tokens(), [(0, 0.5), (2, 0.5)]);
        assert_eq!(distribution(&[0.5, 0.0, 0.5]).prob(1), 0.0);
        assert_eq!(distribution(&[0.5, 0.0, 0.5]).prob(99), 0.0);
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_its_value() {
        let error = |pairs: &[(Token, f64)]| Distribution::from_pairs(pairs.to_vec()).unwrap_err().to_string();
        assert_eq!(error(&[(3, 1.5)]), "token 3 has probability 1.5, which is not between 0 and 1");
        assert_eq!(error(&[(3, f64::NAN)]), "token 3 has probability NaN, which is not between 0 and 1");
        assert_eq!(error(&[(3, 0.5), (1, 0.0), (3, 0.5)]), "token 3 is given more than one probability");
        assert_eq!(error(&[(3, 0.5), (1, 0.25)]), "the probabilities sum to 0.75, which is not within 0.000001 of 1");
        assert_eq!(error(&[]), "the probabilities sum to 0, which is not within 0.000001 of 1");
        let nothing = Distribution::of_candidates(&Candidates::from_probs(&[1.0], 0).unwrap());
        assert_eq!(nothing, Err(DistributionError::Nothing));
    }

    #[test]
    fn a_draw_is_the_first_token_whose_cumulative_probability_exceeds_it() {
        let q = distribution(&[0.25, 0.0, 0.5, 0.25]);
        let drawn = [0.0, 0.2, 0.25, 0.7, 0.75, 0.99].map(|u| q.at(u));
        assert_eq!(drawn, [0, 0, 2, 2, 3, 3]);
    }

    #[test]
    fn a_sum_short_of_the_draw_gives_the_last_possible_token() {
        let flat = |vocab: usize| distribution(&vec![1.0 / vocab as f64; vocab]);
        let q = (2..100).map(flat).find(|q| total(q.tokens()) < 1.0).unwrap();
        assert_eq!(q.at(1.0 - f64::EPSILON / 2.0) as usize, q.tokens().len() - 1);
    }

    #[test]
    fn the_residual_is_what_exceeds_the_other() {
        let (p, q) = (distribution(&[0.5, 0.25, 0.25]), distribution(&[0.25, 0.75, 0.0]));
        assert_eq!(p.exceeding(&q).unwrap().tokens(), [(0, 0.5), (2, 0.5)]);
        assert_eq!(p.exceeding(&p), None);
    }

    #[test]
    fn a_token_taken_out_leaves_the_others_in_proportion() {
        let q = distribution(&[0.5, 0.25, 0.25]);
        assert_eq!(q.without(0).unwrap().tokens(), [(1, 0.5), (2, 0.5)]);
        assert_eq!(q.without(7).unwrap(), q);
        assert_eq!(distribution(&[0.0, 1.0]).without(1), None);
    }

    fn any() -> impl Strategy<Value = Distribution> {
        let weights = prop::collection::vec(0.0_f64..1.0, 1..8);
        weights.prop_filter_map("all are 0", |weights| {
            let sum: f64 = weights.iter().sum();
            Distribution::from_probs(&weights.iter().map(|weight| weight / sum).collect::<Vec<_>>()).ok()
        })
    }

    proptest! {
        #[test]
        fn whatever_is_made_of_distributions_is_one(p in any(), q in any(), token in 0_u32..9, u in 0.0_f64..1.0) {
            for made in [p.exceeding(&q), q.exceeding(&p), p.without(token)].into_iter().flatten() {
                prop_assert!((total(made.tokens()) - 1.0).abs() < 1e-12);
                prop_assert!(made.tokens().iter().all(|&(_, prob)| prob > 0.0 && prob <= 1.0));
                prop_assert!(made.tokens().is_sorted_by(|a, b| a.0 < b.0));
                prop_assert!(made.prob(made.at(u)) > 0.0);
                prop_assert_eq!(Distribution::from_pairs(made.tokens().to_vec()), Ok(made));
            }
        }

        #[test]
        fn any_pairs_are_a_distribution_or_an_error(
            pairs in prop::collection::vec((0_u32..6, -0.2_f64..1.2), 0..5)
        ) {
            if let Ok(found) = Distribution::from_pairs(pairs.clone()) {
                for (token, prob) in pairs {
                    prop_assert!((found.prob(token) - prob).abs() <= PROBABILITY_SUM_SLACK);
                }
            }
        }
    }
}
