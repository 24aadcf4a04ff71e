//! How a request wants its tokens chosen, and the two uses of it: the target's decision and the
//! drafter's ranking of what that decision will be.

mod error;

use std::sync::Arc;

use crate::accept::{arg_max, winner};
use crate::noise::Gumbel;
use crate::numeric::{self, LogitsError, Scale};
use crate::ranking::{over_vocabulary, rank_with_noise};
use crate::support::Support;
use crate::{Acceptance, Candidates, Distribution, GumbelMax, Shaping, Token};

pub use error::{LOGIT_BIAS_MAX, LOGIT_BIASES_MAX, SamplingError};

/// A request's sampling parameters; valid by construction.
///
/// [`crate::Sampler`] applies them to a text. Clones share the logit bias.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    temperature: f64,
    top_k: usize,
    top_p: f64,
    min_p: f64,
    seed: u64,
    /// Never rejection where nothing is drawn.
    acceptance: Acceptance,
    /// None that is neutral.
    shaping: Option<Arc<Shaping>>,
}

impl Sampling {
    /// Temperature 0: the most probable token, always.
    pub const fn greedy() -> Self {
        let acceptance = Acceptance::Coupled;
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0, acceptance, shaping: None }
    }

    /// Samples at `temperature` (0: greedy) from the `top_k` most probable tokens (0: all), of
    /// those from the smallest set whose probability reaches `top_p`, with noise from `seed`.
    ///
    /// # Errors
    /// A temperature that is negative or not finite; `top_p` outside (0, 1].
    pub fn new(temperature: f64, top_k: usize, top_p: f64, seed: u64) -> Result<Self, SamplingError> {
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(SamplingError::Temperature { found: temperature });
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(SamplingError::TopP { found: top_p });
        }
        Ok(Self { temperature, top_k, top_p, seed, ..Self::greedy() })
    }

    /// The same, but only from tokens at least `min_p` times as probable as the most probable one (0: all); applied
    /// after the temperature, `top_k` and `top_p`.
    ///
    /// # Errors
    /// `min_p` outside [0, 1].
    pub fn with_min_p(self, min_p: f64) -> Result<Self, SamplingError> {
        match (0.0..=1.0).contains(&min_p) {
            true => Ok(Self { min_p, ..self }),
            false => Err(SamplingError::MinP { found: min_p }),
        }
    }

    /// The same with bias and penalties, applied before all else.
    pub fn with_shaping(self, shaping: Shaping) -> Self {
        let shaping = Some(shaping).filter(|shaping| !shaping.is_neutral()).map(Arc::new);
        Self { shaping, ..self }
    }

    /// The same with noise from `seed`.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same with drafted tokens accepted by `acceptance`; at temperature 0, where both come to the same, it is
    /// always [`Acceptance::Coupled`].
    pub fn with_acceptance(self, acceptance: Acceptance) -> Self {
        let acceptance = if self.is_greedy() { Acceptance::Coupled } else { acceptance };
        Self { acceptance, ..self }
    }

    /// The temperature, finite and at least 0.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// Tokens sampled from, 0 meaning all.
    pub fn top_k(&self) -> usize {
        self.top_k
    }

    /// Probability of the nucleus, in (0, 1].
    pub fn top_p(&self) -> f64 {
        self.top_p
    }

    /// The least probability relative to the greatest, in [0, 1].
    pub fn min_p(&self) -> f64 {
        self.min_p
    }

    /// Bias and penalties, if there are any.
    pub fn shaping(&self) -> Option<&Shaping> {
        self.shaping.as_deref()
    }

    /// Seed of the noise.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How drafted tokens are accepted.
    pub fn acceptance(&self) -> Acceptance {
        self.acceptance
    }

    /// Whether the most probable token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// The rule that decides where all tokens may be drawn and the text is coupled to its seed, if contenders tell it.
    pub(crate) fn gumbel_max(&self) -> Option<GumbelMax> {
        let cuts = self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0;
        let is_coupled = self.acceptance == Acceptance::Coupled;
        if is_coupled && !cuts { GumbelMax::new(self.temperature, self.seed) } else { None }
    }

    /// The token at absolute `position`, given the target's `logits` for it as [`Shaping`] left them.
    ///
    /// # Errors
    /// No logits, a NaN or plus infinity among them, or all minus infinity.
    pub(crate) fn decide(&self, logits: &[f32], position: u64) -> Result<Token, LogitsError> {
        if self.is_greedy() {
            return arg_max(logits);
        }
        let peak = numeric::peak(logits)?;
        let noise = Gumbel::new(self.seed, position);
        let token = match self.support(logits, peak) {
            Support::Everything(scale) => winner(scale.scores(logits), &noise),
            Support::Some(scores) => winner(scores, &noise),
        };
        let vocab = logits.len();
        token.ok_or(LogitsError::NothingPossible { vocab })
    }

    /// The drafter's `k` best guesses at what [`Self::decide`] will choose at `position`, given its own `logits` as
    /// [`Shaping`] left them.
    ///
    /// # Errors
    /// No logits, a NaN or plus infinity among them, or all minus infinity.
    pub(crate) fn rank(&self, logits: &[f32], position: u64, k: usize) -> Result<Candidates, LogitsError> {
        if self.is_greedy() {
            return Candidates::from_logits(logits, k);
        }
        let peak = numeric::peak(logits)?;
        let noise = Gumbel::new(self.seed, position);
        Ok(match self.support(logits, peak) {
            Support::Everything(scale) => over_vocabulary(logits, scale, &noise, k),
            Support::Some(scores) => rank_with_noise(&scores, &noise, k),
        })
    }

    /// The distribution that tokens are drawn from, given `logits` as [`Shaping`] left them; all on the arg-max where
    /// greedy. Probabilities are within a relative 1e-6 of the exact ones.
    ///
    /// # Errors
    /// No logits, a NaN or plus infinity among them, or all minus infinity.
    pub(crate) fn distribution(&self, logits: &[f32]) -> Result<Distribution, LogitsError> {
        if self.is_greedy() {
            return Ok(Distribution::certain(arg_max(logits)?));
        }
        let weights = match self.support(logits, numeric::peak(logits)?) {
            Support::Everything(scale) => {
                (0..).zip(numeric::weights(logits, scale).into_iter().map(f64::from)).collect()
            }
            Support::Some(scores) => scores.into_iter().map(|(token, score)| (token, libm::exp(score))).collect(),
        };
        Distribution::of_weights(weights).ok_or(LogitsError::NothingPossible { vocab: logits.len() })
    }

    /// The `k` most probable tokens of that distribution, best first, with the shape of the whole.
    ///
    /// # Errors
    /// No logits, a NaN or plus infinity among them, or all minus infinity.
    pub(crate) fn most_probable(&self, logits: &[f32], k: usize) -> Result<Candidates, LogitsError> {
        if self.is_greedy() {
            return Candidates::from_logits(logits, k.min(1));
        }
        Ok(match self.support(logits, numeric::peak(logits)?) {
            Support::Everything(scale) => Candidates::of_vocabulary(logits, scale, k),
            Support::Some(scores) => Candidates::of_scores(scores, k),
        })
    }

    fn support(&self, logits: &[f32], peak: f32) -> Support {
        let scale = Scale::new(peak, self.temperature);
        let support = Support::new(logits, scale, self.top_k, self.top_p);
        if self.min_p == 0.0 { support } else { self.most_probable_of(support, logits) }
    }

    /// What `min_p` leaves: the most probable token has score 0, whatever was cut before.
    fn most_probable_of(&self, support: Support, logits: &[f32]) -> Support {
        let floor = libm::log(self.min_p);
        let stays = |&(_, score): &(Token, f64)| score >= floor;
        Support::Some(match support {
            Support::Everything(scale) => scale.scores(logits).filter(stays).collect(),
            Support::Some(scores) => scores.into_iter().filter(stays).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Penalties;

    /// Probabilities 0.4, 0.3, 0.2, 0.1 and 0, as logits.
    fn logits() -> Vec<f32> {
        [0.4_f32, 0.3, 0.2, 0.1, 0.0].map(f32::ln).to_vec()
    }

    /// Chi-square of the tokens decided at 20 000 positions against the expected probabilities.
    fn chi_square(sampling: &Sampling, expected: &[f64]) -> f64 {
        let mut counts = [0_u32; 5];
        for position in 0..20_000 {
            counts[sampling.decide(&logits(), position).unwrap() as usize] += 1;
        }
        let possible = counts.iter().zip(expected).filter(|&(&count, &share)| count > 0 || share > 0.0);
        let terms = possible.map(|(&count, &share)| (f64::from(count) / 20_000.0 - share).powi(2) / share);
        20_000.0 * terms.sum::<f64>()
    }

    #[test]
    fn parameters_out_of_range_are_refused_with_their_value() {
        let error = |temperature, top_p| Sampling::new(temperature, 0, top_p, 0).unwrap_err().to_string();
        assert_eq!(error(-0.5, 1.0), "temperature -0.5 is not a finite number of at least 0");
        assert_eq!(error(f64::NAN, 1.0), "temperature NaN is not a finite number of at least 0");
        assert_eq!(error(f64::INFINITY, 1.0), "temperature inf is not a finite number of at least 0");
        assert_eq!(error(1.0, 0.0), "top_p 0 is not above 0 and at most 1");
        assert_eq!(error(1.0, 1.5), "top_p 1.5 is not above 0 and at most 1");
        let error = |min_p| Sampling::greedy().with_min_p(min_p).unwrap_err().to_string();
        assert_eq!(error(-0.1), "min_p -0.1 is not between 0 and 1");
        assert_eq!(error(f64::NAN), "min_p NaN is not between 0 and 1");
    }

    #[test]
    fn at_temperature_0_the_most_probable_token_is_taken() {
        assert!(Sampling::new(0.0, 5, 0.5, 1).unwrap().is_greedy());
        assert_eq!(Sampling::greedy().decide(&logits(), 3), Ok(0));
    }

    #[test]
    fn a_tiny_temperature_is_as_good_as_greedy() {
        for temperature in [f64::MIN_POSITIVE, 1e-20, 1e-3] {
            let sampling = Sampling::new(temperature, 0, 1.0, 1).unwrap();
            assert!((0..100).all(|position| sampling.decide(&logits(), position) == Ok(0)));
        }
    }

    #[test]
    fn decisions_are_fair_draws_from_the_shaped_distribution() {
        // Below 20 for four degrees of freedom: a fair draw exceeds it once in 2 000 seeds.
        let fair_above = |temperature, top_k, top_p, min_p, expected: [f64; 5]| {
            let sampling = Sampling::new(temperature, top_k, top_p, 11).unwrap().with_min_p(min_p).unwrap();
            let found = chi_square(&sampling, &expected);
            assert!(found < 20.0, "{sampling:?}: {found}");
        };
        let fair = |temperature, top_k, top_p, expected| fair_above(temperature, top_k, top_p, 0.0, expected);
        fair(1.0, 0, 1.0, [0.4, 0.3, 0.2, 0.1, 0.0]);
        fair(0.5, 0, 1.0, [16.0 / 30.0, 9.0 / 30.0, 4.0 / 30.0, 1.0 / 30.0, 0.0]);
        fair(1.0, 2, 1.0, [4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0]);
        fair(1.0, 0, 0.65, [4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0]);
        fair(1.0, 3, 0.5, [4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0]);
        // Relative to 0.4 the others have 0.75, 0.5 and 0.25; at half the temperature the squares of these.
        fair_above(1.0, 0, 1.0, 0.4, [4.0 / 9.0, 3.0 / 9.0, 2.0 / 9.0, 0.0, 0.0]);
        fair_above(0.5, 0, 1.0, 0.4, [16.0 / 25.0, 9.0 / 25.0, 0.0, 0.0, 0.0]);
        fair_above(1.0, 2, 1.0, 0.4, [4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0]);
        fair_above(1.0, 0, 0.65, 0.8, [1.0, 0.0, 0.0, 0.0, 0.0]);
        fair_above(1.0, 0, 1.0, 1.0, [1.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn min_p_keeps_all_that_are_as_probable_as_the_most_probable() {
        let sampling = Sampling::new(1.0, 0, 1.0, 0).unwrap().with_min_p(1.0).unwrap();
        let drawn: std::collections::BTreeSet<Token> =
            (0..50).map(|position| sampling.decide(&[2.0, 1.0, 2.0], position).unwrap()).collect();
        assert_eq!(drawn, [0, 2].into());
    }

    #[test]
    fn the_distribution_is_what_decisions_are_drawn_from() {
        let probs = |temperature, top_k, top_p, min_p| {
            let sampling = Sampling::new(temperature, top_k, top_p, 0).unwrap().with_min_p(min_p).unwrap();
            let distribution = sampling.distribution(&logits()).unwrap();
            // The draft's side of it: the same tokens, best first.
            let best = sampling.most_probable(&logits(), 2).unwrap();
            let expected = distribution.tokens().iter().take(2).map(|&(token, _)| token);
            assert!(best.tokens().iter().map(|&(token, _)| token).eq(expected), "{best:?}");
            assert!(
                best.tokens()
                    .iter()
                    .all(|&(token, prob)| (prob - distribution.prob(token)).abs() < 1e-6 || temperature == 0.0)
            );
            (0..5).map(|token| distribution.prob(token)).collect::<Vec<f64>>()
        };
        for (found, expected) in [
            (probs(0.0, 0, 1.0, 0.0), [1.0, 0.0, 0.0, 0.0, 0.0]),
            (probs(1.0, 0, 1.0, 0.0), [0.4, 0.3, 0.2, 0.1, 0.0]),
            (probs(0.5, 0, 1.0, 0.0), [16.0 / 30.0, 9.0 / 30.0, 4.0 / 30.0, 1.0 / 30.0, 0.0]),
            (probs(1.0, 2, 1.0, 0.0), [4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0]),
            (probs(1.0, 0, 0.65, 0.0), [4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0]),
            (probs(1.0, 0, 1.0, 0.4), [4.0 / 9.0, 3.0 / 9.0, 2.0 / 9.0, 0.0, 0.0]),
        ] {
            assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{found:?}");
        }
    }

    #[test]
    fn at_temperature_0_rejection_is_greedy() {
        let with = |temperature| {
            let sampling = Sampling::new(temperature, 0, 1.0, 0).unwrap();
            sampling.with_acceptance(Acceptance::Rejection).acceptance()
        };
        assert_eq!((with(0.0), with(0.1)), (Acceptance::Coupled, Acceptance::Rejection));
    }

    #[test]
    fn shaping_that_changes_nothing_is_none() {
        let neutral = Shaping::new(Penalties::NONE, []).unwrap();
        assert_eq!(Sampling::greedy().with_shaping(neutral), Sampling::greedy());
    }

    #[test]
    fn a_decision_depends_on_seed_and_position_alone() {
        let decide = |seed, position| Sampling::new(1.0, 0, 1.0, seed).unwrap().decide(&[0.0; 1000], position);
        assert_eq!(decide(1, 2), decide(1, 2));
        assert_ne!(decide(1, 2), decide(1, 3));
        assert_ne!(decide(1, 2), decide(2, 2));
    }

    #[test]
    fn a_drafter_like_the_target_ranks_its_decision_first() {
        let logits: Vec<f32> = (0..500).map(|i| ((i * 7919) % 1009) as f32 / 100.0).collect();
        for (temperature, top_k, top_p) in [(0.0, 0, 1.0), (0.8, 0, 1.0), (1.2, 40, 1.0), (1.0, 0, 0.9)] {
            let sampling = Sampling::new(temperature, top_k, top_p, 5).unwrap();
            for position in 0..200 {
                let candidates = sampling.rank(&logits, position, 3).unwrap();
                assert_eq!(candidates.tokens()[0].0, sampling.decide(&logits, position).unwrap());
            }
        }
    }

    #[test]
    fn candidates_lie_within_what_may_be_drawn() {
        let sampling = Sampling::new(1.0, 2, 1.0, 0).unwrap();
        for position in 0..50 {
            let candidates = sampling.rank(&logits(), position, 5).unwrap();
            let mut tokens: Vec<Token> = candidates.tokens().iter().map(|&(token, _)| token).collect();
            tokens.sort_unstable();
            assert_eq!(tokens, [0, 1]);
            let total: f64 = candidates.tokens().iter().map(|&(_, prob)| prob).sum();
            assert!((total - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn logits_that_decide_nothing_are_an_error_at_any_temperature() {
        for temperature in [0.0, 1.0] {
            let sampling = Sampling::new(temperature, 0, 1.0, 0).unwrap();
            assert_eq!(sampling.decide(&[], 0), Err(LogitsError::Empty));
            assert_eq!(sampling.decide(&[f32::NAN], 0), Err(LogitsError::NotFinite { token: 0 }));
            assert_eq!(sampling.rank(&[f32::NEG_INFINITY], 0, 1), Err(LogitsError::NothingPossible { vocab: 1 }));
            assert_eq!(sampling.distribution(&[]), Err(LogitsError::Empty));
            assert_eq!(sampling.most_probable(&[f32::NAN], 1), Err(LogitsError::NotFinite { token: 0 }));
        }
    }
}
