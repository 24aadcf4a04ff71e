//! How a request wants its tokens chosen, and the two uses of it: the target's decision and the
//! drafter's ranking of what that decision will be.

use crate::accept::{arg_max, winner};
use crate::noise::Gumbel;
use crate::numeric::{self, LogitsError, Scale};
use crate::ranking::{over_vocabulary, rank_with_noise};
use crate::support::Support;
use crate::{Candidates, Token};

/// Why sampling parameters were refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A temperature that is negative or not finite.
    #[error("temperature {found} is not a finite number of at least 0")]
    Temperature {
        /// The temperature asked for.
        found: f64,
    },
    /// A nucleus that is empty, beyond everything, or not a number.
    #[error("top_p {found} is not above 0 and at most 1")]
    TopP {
        /// The nucleus asked for.
        found: f64,
    },
}

/// A request's sampling parameters; valid by construction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    temperature: f64,
    top_k: usize,
    top_p: f64,
    seed: u64,
}

impl Sampling {
    /// Temperature 0: the most probable token, always.
    pub const fn greedy() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 }
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
        Ok(Self { temperature, top_k, top_p, seed })
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

    /// Seed of the noise.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether the most probable token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// The token at absolute `position`, given the target's `logits` for it.
    ///
    /// Greedy takes the arg-max (ties: smaller token). Otherwise the arg-max of
    /// `log p + gumbel(seed, position, token)`, `p` being shaped by temperature, `top_k` and
    /// `top_p` in this order: a draw from `p` that depends on nothing else.
    ///
    /// # Errors
    /// No logits, a NaN or plus infinity among them, or all minus infinity.
    pub fn decide(&self, logits: &[f32], position: u64) -> Result<Token, LogitsError> {
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

    /// The drafter's `k` best guesses at what [`Self::decide`] will choose at `position`.
    ///
    /// Greedy: the most probable tokens of the softmax of `logits`, at temperature 1. Otherwise
    /// tokens ranked by `log q + gumbel(seed, position, token)`, `q` being shaped as the target's
    /// `p` is, each with the probability that it wins given this noise:
    /// `softmax(log q + gumbel)` over the vocabulary. Confidence and entropy are those of `q`.
    ///
    /// # Errors
    /// No logits, a NaN or plus infinity among them, or all minus infinity.
    pub fn rank(&self, logits: &[f32], position: u64, k: usize) -> Result<Candidates, LogitsError> {
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

    fn support(&self, logits: &[f32], peak: f32) -> Support {
        let scale = Scale::new(peak, self.temperature);
        Support::new(logits, scale, self.top_k, self.top_p)
    }
}
