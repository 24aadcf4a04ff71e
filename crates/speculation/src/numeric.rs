//! Loops over a vocabulary of `f32` logits, written in lanes so that they vectorise on any target
//! and add up in one fixed order.

use crate::{RestrictionFault, Shape, Token};

/// Lanes of a block: two AVX-512 registers, four AVX2, eight SSE2.
pub(crate) const LANES: usize = 32;

/// What makes logits unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogitsError {
    /// There are none.
    #[error("no logits were given")]
    Empty,
    /// One is NaN or plus infinity.
    #[error("the logit of token {token} is not a number below infinity")]
    NotFinite {
        /// The first such token.
        token: usize,
    },
    /// All are minus infinity.
    #[error("all {vocab} logits are minus infinity, so no token is possible")]
    NothingPossible {
        /// Number of logits.
        vocab: usize,
    },
    /// It cannot be said which of them may be chosen.
    #[error(transparent)]
    Restriction(#[from] RestrictionFault),
}

/// The greatest logit, once it is known that every logit is a number below infinity.
///
/// Minus infinity is a legal logit (probability 0), but not for all of them.
pub(crate) fn peak(logits: &[f32]) -> Result<f32, LogitsError> {
    let (blocks, rest) = logits.as_chunks::<LANES>();
    let mut highest = [f32::NEG_INFINITY; LANES];
    let mut faulty = [false; LANES];
    for block in blocks {
        for lane in 0..LANES {
            highest[lane] = highest[lane].max(block[lane]);
            faulty[lane] |= is_faulty(block[lane]);
        }
    }
    let highest = highest.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    if faulty.contains(&true) || rest.iter().copied().any(is_faulty) {
        let token = logits.iter().copied().position(is_faulty).unwrap_or(0);
        return Err(LogitsError::NotFinite { token });
    }
    match (highest == f32::NEG_INFINITY, logits.len()) {
        (false, _) => Ok(highest),
        (true, 0) => Err(LogitsError::Empty),
        (true, vocab) => Err(LogitsError::NothingPossible { vocab }),
    }
}

#[inline]
fn is_faulty(logit: f32) -> bool {
    logit.is_nan() || logit == f32::INFINITY
}

/// The first index that holds `value`.
pub(crate) fn first_index_of(values: &[f32], value: f32) -> Option<usize> {
    let (blocks, rest) = values.as_chunks::<LANES>();
    let block = blocks.iter().position(|block| block.iter().fold(false, |hit, &x| hit | (x == value)));
    let start = block.map_or(blocks.len() * LANES, |block| block * LANES);
    let tail = if block.is_some() { &values[start..] } else { rest };
    tail.iter().position(|&x| x == value).map(|index| start + index)
}

/// Below this a temperature acts as this one: by then the arg-max always wins.
const TEMPERATURE_FLOOR: f64 = 1e-30;

/// From logits to scores: log-probabilities at some temperature, up to a common constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    peak: f64,
    pub(crate) inverse_temperature: f64,
}

impl Scale {
    /// Scores at `temperature` > 0 of logits of which `peak` is the greatest.
    pub(crate) fn new(peak: f32, temperature: f64) -> Self {
        Self { peak: f64::from(peak), inverse_temperature: 1.0 / temperature.max(TEMPERATURE_FLOOR) }
    }

    /// (logit - peak) / temperature: at most 0, minus infinity for an impossible token.
    #[inline]
    pub(crate) fn score(&self, logit: f32) -> f64 {
        (f64::from(logit) - self.peak) * self.inverse_temperature
    }

    /// The score of every token, by rising token.
    pub(crate) fn scores(self, logits: &[f32]) -> impl Iterator<Item = (Token, f64)> {
        (0..).zip(logits.iter().map(move |&logit| self.score(logit)))
    }

    /// The score in `f32`, cut off at [`LEAST_SCORE`] so that `weight * score` is finite.
    #[inline]
    fn coarse(&self) -> impl Fn(f32) -> f32 + use<> {
        let (peak, scale) = (self.peak as f32, self.inverse_temperature as f32);
        move |logit| {
            let score = (logit - peak) * scale;
            if score > LEAST_SCORE { score } else { LEAST_SCORE }
        }
    }
}

/// The sums that make a softmax of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Softmax {
    /// Sum of `exp(score)`: at least 1, or 0 where no token is possible.
    pub(crate) sum: f64,
    /// Sum of `exp(score) * score`.
    pub(crate) moment: f64,
}

impl Softmax {
    /// One pass over `logits`, in `f32` inside a block and `f64` over blocks: `sum` and `moment`
    /// are within a relative 1e-6 of their exact values.
    pub(crate) fn over(logits: &[f32], scale: Scale) -> Self {
        let mut softmax = Self { sum: 0.0, moment: 0.0 };
        for block in logits.chunks(16 * LANES) {
            let (sum, moment) = block_sums(block, scale);
            softmax.sum += sum;
            softmax.moment += moment;
        }
        softmax
    }

    /// The softmax of given scores in exact `f64`, taken relative to the greatest, which comes
    /// with it. Scores that are not finite weigh nothing.
    pub(crate) fn exact(scores: &[(Token, f64)]) -> (f64, Self) {
        let possible = || scores.iter().map(|&(_, score)| score).filter(|score| score.is_finite());
        let best = possible().fold(f64::NEG_INFINITY, f64::max);
        let mut softmax = Self { sum: 0.0, moment: 0.0 };
        for score in possible() {
            let weight = libm::exp(score - best);
            softmax.sum += weight;
            softmax.moment += weight * (score - best);
        }
        (best, softmax)
    }

    /// Probability of a token with this score, in [0, 1].
    pub(crate) fn prob(&self, score: f64) -> f64 {
        (libm::exp(score) / self.sum).min(1.0)
    }

    /// Confidence and entropy; both 0 where no token is possible.
    pub(crate) fn shape(&self) -> Shape {
        if self.sum == 0.0 {
            return Shape { confidence: 0.0, entropy: 0.0 };
        }
        Shape { confidence: 1.0 / self.sum, entropy: (libm::log(self.sum) - self.moment / self.sum).max(0.0) }
    }
}

/// `e^score` of every token in `f32`, relative to the most probable one.
pub(crate) fn weights(logits: &[f32], scale: Scale) -> Vec<f32> {
    let coarse = scale.coarse();
    logits.iter().map(|&logit| exp(coarse(logit))).collect()
}

/// The sum of non-negative `values`, within a relative 1e-6.
pub(crate) fn sum(values: &[f32]) -> f64 {
    sum_above(values, -1.0)
}

/// The sum of those non-negative `values` that are above `floor`, within a relative 1e-6.
pub(crate) fn sum_above(values: &[f32], floor: f32) -> f64 {
    let block_sum = |block: &[f32]| {
        let (rows, rest) = block.as_chunks::<LANES>();
        let mut sums = [0.0_f32; LANES];
        for row in rows.iter().map(|row| row.as_slice()).chain([rest]) {
            for (sum, &value) in sums.iter_mut().zip(row) {
                *sum += if value > floor { value } else { 0.0 };
            }
        }
        total(&sums)
    };
    values.chunks(16 * LANES).map(block_sum).sum()
}

fn block_sums(block: &[f32], scale: Scale) -> (f64, f64) {
    let coarse = scale.coarse();
    let (rows, rest) = block.as_chunks::<LANES>();
    let (mut sums, mut moments) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    for row in rows {
        for lane in 0..LANES {
            let score = coarse(row[lane]);
            let weight = exp(score);
            sums[lane] += weight;
            moments[lane] += weight * score;
        }
    }
    for (lane, &logit) in rest.iter().enumerate() {
        let score = coarse(logit);
        sums[lane] += exp(score);
        moments[lane] += exp(score) * score;
    }
    (total(&sums), total(&moments))
}

fn total(lanes: &[f32]) -> f64 {
    lanes.iter().map(|&lane| f64::from(lane)).sum()
}

/// Below this score a weight counts as 0: it is under 1e-37 of the greatest.
const LEAST_SCORE: f32 = -86.0;

/// `e^x` for x in [[`LEAST_SCORE`], 0], with a relative error below 3e-7; 0 at [`LEAST_SCORE`].
#[inline]
fn exp(x: f32) -> f32 {
    /// Adding and subtracting it rounds to the nearest integer.
    const ROUNDER: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x * std::f32::consts::LOG2_E + ROUNDER;
    let power = shifted - ROUNDER;
    let r = (x - power * LN_2_HIGH) - power * LN_2_LOW;
    let tail = 1.0 / 120.0 + r * (1.0 / 720.0);
    let series = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * tail))));
    let exponent = shifted.to_bits().wrapping_add(127) << 23;
    let value = series * f32::from_bits(exponent);
    if x > LEAST_SCORE { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// Logits of every length around the block sizes, in no order.
    fn logits(length: usize) -> Vec<f32> {
        (0..length).map(|i| ((i * 7919) % 1009) as f32 / 50.0 - 10.0).collect()
    }

    #[test]
    fn the_peak_is_found_wherever_it_is() {
        for length in [1, 31, 32, 33, 64, 100] {
            for place in 0..length {
                let mut logits = vec![-1.0; length];
                logits[place] = 2.0;
                assert_eq!(peak(&logits), Ok(2.0));
                assert_eq!(first_index_of(&logits, 2.0), Some(place));
            }
        }
        assert_eq!(first_index_of(&[1.0; 40], 2.0), None);
    }

    #[test]
    fn unusable_logits_are_named() {
        assert_eq!(peak(&[]), Err(LogitsError::Empty));
        assert_eq!(peak(&[f32::NEG_INFINITY; 40]), Err(LogitsError::NothingPossible { vocab: 40 }));
        for fault in [f32::NAN, f32::INFINITY] {
            for token in [0, 5, 33, 39] {
                let mut logits = logits(40);
                logits[token] = fault;
                assert_eq!(peak(&logits), Err(LogitsError::NotFinite { token }));
            }
        }
    }

    #[test]
    fn exp_is_within_its_stated_error() {
        for step in 0..86_000 {
            let x = -0.001 * step as f32;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) / exact - 1.0).abs() < 3e-7, "{x}");
        }
        assert_eq!((exp(0.0), exp(LEAST_SCORE)), (1.0, 0.0));
    }

    #[test]
    fn a_softmax_over_logits_agrees_with_the_exact_one() {
        for (length, temperature) in [(1, 1.0), (31, 0.5), (4096, 1.0), (50_001, 2.0)] {
            let logits = logits(length);
            let scale = Scale::new(peak(&logits).unwrap(), temperature);
            let scores: Vec<(Token, f64)> = scale.scores(&logits).collect();
            let (coarse, exact) = (Softmax::over(&logits, scale), Softmax::exact(&scores).1);
            assert!((coarse.sum / exact.sum - 1.0).abs() < 1e-6, "{coarse:?} for {exact:?}");
            assert!((coarse.moment - exact.moment).abs() < 1e-6 * exact.sum, "{coarse:?} for {exact:?}");
            let (coarse, exact) = (coarse.shape(), exact.shape());
            assert!((coarse.entropy - exact.entropy).abs() < 1e-5, "{coarse:?} for {exact:?}");
        }
    }

    #[test]
    fn a_tiny_temperature_leaves_the_arg_max_alone() {
        let scale = Scale::new(1.0, 1e-300);
        assert_eq!(scale.score(1.0), 0.0);
        assert!(scale.score(0.999) < -1e20);
        assert_eq!(Softmax::over(&[0.5, 1.0, 1.0], scale).sum, 2.0);
    }

    proptest! {
        #[test]
        fn no_logits_make_a_softmax_fail(logits in prop::collection::vec(any::<f32>(), 0..70)) {
            if let Ok(peak) = peak(&logits) {
                let softmax = Softmax::over(&logits, Scale::new(peak, 1.0));
                let shape = softmax.shape();
                prop_assert!(softmax.sum >= 1.0 && softmax.sum <= logits.len() as f64);
                prop_assert!(shape.confidence > 0.0 && shape.confidence <= 1.0);
                prop_assert!(shape.entropy >= 0.0 && shape.entropy.is_finite());
            }
        }
    }
}
