//! What plain decoding makes at one load, and what drafting gains over it, as believed from epochs of either: a Kalman
//! filter of two numbers that drift, both logarithms. An epoch of plain decoding tells of the first, one of drafting of
//! their sum. As the machine's pace drifts faster than the gain, epochs that are near each other tell the most.

use crate::rate::Rate;

/// Standard deviation of what the machine's pace changes by from one epoch to the next, as a share of it: others use it too.
/// Lower values compare epochs that lie far apart, higher ones only neighbours.
const JITTER: f64 = 0.08;

/// How far the gain of drafting drifts in one epoch, as a share of it: text and load change. It is what has a way tried
/// again that lost: after `n` epochs untried the standard error is `DRIFT * sqrt(n)`.
const DRIFT: f64 = 0.01;

/// Standard errors that an epoch may be off before it surprises. What surprises, as when the machine stood still for a
/// moment, is hardly believed, but makes unsure, so that the next epoch of its kind decides. Lower values doubt what is
/// true and try too often, higher ones believe a single spoilt try.
const SURPRISE: f64 = 3.0;

/// A number and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Estimate {
    /// The logarithm of a rate above 0.
    pub(super) fn log_of(rate: Rate) -> Self {
        let value = rate.value.max(f64::MIN_POSITIVE);
        Self { value: libm::log(value), error: rate.error / value }
    }

    /// The same, by an `error` of something else less sure.
    pub(super) fn less_sure(self, error: f64) -> Self {
        Self { error: self.error.hypot(error), ..self }
    }

    fn variance(self) -> f64 {
        self.error * self.error
    }
}

/// What drafting makes of plain decoding, as a logarithm, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Gain {
    value: f64,
    variance: f64,
    /// Epochs in which drafting was measured without a surprise.
    looks: u32,
}

/// Logarithms of the rate of plain decoding and of what drafting makes of it, and how sure they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    pace: f64,
    pace_variance: f64,
    gain: Gain,
    /// The gain as it was believed when plain decoding was measured last.
    before: Gain,
    covariance: f64,
    /// Whether drafting was measured.
    tried: bool,
    /// The epoch that all this is of.
    epoch: u64,
}

impl Belief {
    /// After plain decoding was measured in `epoch`; of drafting nothing is known.
    pub(super) fn new(plain: Estimate, epoch: u64) -> Self {
        let (pace, pace_variance, gain) = (plain.value, plain.variance(), Gain::default());
        Self { pace, pace_variance, gain, before: gain, covariance: 0.0, tried: false, epoch }
    }

    /// Whether drafting was measured, so that something is known of its gain.
    pub(super) fn is_tried(&self) -> bool {
        self.tried
    }

    /// Epochs in which drafting was measured without a surprise.
    pub(super) fn looks(&self) -> u32 {
        self.gain.looks
    }

    /// Takes into account what drafting is `supposed` to gain, where it was not measured yet.
    pub(super) fn suppose(&mut self, supposed: Estimate) {
        (self.gain.value, self.gain.variance, self.tried) = (supposed.value, supposed.variance(), true);
        self.before = self.gain;
    }

    /// Takes into account the rate, as a logarithm, that was `measured` in `epoch`. If that surprises, it gives how many
    /// times the rate is that is believed nevertheless.
    pub(super) fn update(&mut self, drafted: bool, measured: Estimate, epoch: u64) -> Option<f64> {
        self.drift_until(epoch);
        // 1 where the gain is part of what was measured.
        let share = if drafted { 1.0 } else { 0.0 };
        let with_pace = self.pace_variance + share * self.covariance;
        let with_gain = self.covariance + share * self.gain.variance;
        let off = measured.value - self.pace - share * self.gain.value;
        let expected = with_pace + share * with_gain + measured.variance();
        let surprise = (off * off / (SURPRISE * SURPRISE) - expected).max(0.0);
        let variance = (expected + surprise).max(f64::MIN_POSITIVE);
        self.pace += with_pace / variance * off;
        self.gain.value += with_gain / variance * off;
        self.pace_variance += surprise - with_pace * with_pace / variance;
        self.gain.variance += share * surprise - with_gain * with_gain / variance;
        self.covariance -= with_pace * with_gain / variance;
        let surprises = surprise > 0.0;
        let believed = libm::exp(self.pace + share * self.gain.value - measured.value);
        match (drafted, surprises) {
            (true, false) => self.gain.looks = self.gain.looks.saturating_add(1),
            (true, true) => {}
            (false, false) => self.before = self.gain,
            // The pace is another one than when plain decoding was measured last. What was drafted since was held against
            // that one, and tells nothing.
            (false, true) => (self.gain, self.covariance) = (self.before, 0.0),
        }
        surprises.then_some(believed)
    }

    /// What drafting is believed to gain in `epoch`, as a logarithm: the longer it was not measured, the less sure.
    pub(super) fn gain_at(mut self, epoch: u64) -> Estimate {
        self.drift_until(epoch);
        Estimate { value: self.gain.value, error: self.gain.variance.max(0.0).sqrt() }
    }

    fn drift_until(&mut self, epoch: u64) {
        let epochs = epoch.saturating_sub(self.epoch) as f64;
        self.pace_variance += epochs * JITTER * JITTER;
        for gain in [&mut self.gain, &mut self.before] {
            gain.variance += epochs * DRIFT * DRIFT;
        }
        self.epoch = epoch;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// The logarithm of a rate, by so much unsure.
    fn rate(value: f64) -> Estimate {
        Estimate { value: value.ln(), error: 0.02 }
    }

    fn hoped() -> Belief {
        let mut belief = Belief::new(rate(1.0), 0);
        belief.suppose(Estimate { value: 0.26, error: 0.26 });
        belief
    }

    /// Epochs of both kinds in turns, in which drafting makes `draft` of plain decoding.
    fn alternate(belief: &mut Belief, epochs: Range<u64>, draft: f64) {
        for epoch in epochs {
            let drafted = epoch % 2 == 0;
            belief.update(drafted, rate(if drafted { draft } else { 1.0 }), epoch);
        }
    }

    #[test]
    fn many_epochs_make_sure_and_time_makes_unsure_again() {
        let mut belief = hoped();
        alternate(&mut belief, 1..40, 0.9);
        let Estimate { value, error } = belief.gain_at(40);
        assert!((value - 0.9_f64.ln()).abs() < 0.02 && error < 0.06, "{value} {error}");
        assert!(belief.gain_at(1040).error > 0.25);
    }

    #[test]
    fn the_pace_of_the_machine_is_not_taken_for_a_gain() {
        let mut belief = hoped();
        // It gets faster by a tenth from each epoch to the next, for a while.
        for epoch in 1..30_u64 {
            let pace = 1.1_f64.powi(epoch.min(15) as i32);
            belief.update(epoch % 2 == 0, rate(pace * [1.0, 0.8][usize::from(epoch % 2 == 0)]), epoch);
        }
        assert!((belief.gain_at(30).value - 0.8_f64.ln()).abs() < 0.06, "{:?}", belief.gain_at(30));
    }

    #[test]
    fn of_epochs_of_one_kind_alone_nothing_is_learned_for_long() {
        let mut belief = hoped();
        (1..100).for_each(|epoch| assert!(belief.update(false, rate(1.0), epoch).is_none()));
        assert!((belief.gain_at(100).value - 0.26).abs() < 1e-9 && belief.gain_at(100).error > 0.26);
    }

    #[test]
    fn a_spoilt_epoch_is_hardly_believed_but_makes_unsure() {
        let mut belief = hoped();
        alternate(&mut belief, 1..9, 1.4);
        let before = belief.gain_at(10);
        assert!(belief.update(true, rate(0.2), 10).is_some_and(|times| times > 4.0));
        let after = belief.gain_at(10);
        assert!(before.value - after.value < 0.15 && after.error > 3.0 * before.error, "{before:?} {after:?}");
    }

    #[test]
    fn what_was_drafted_while_the_pace_changed_is_taken_back() {
        let mut belief = hoped();
        for epoch in 1..4 {
            belief.update(true, rate(0.4 * 1.3), epoch);
        }
        assert!(belief.gain_at(4).value < -0.3, "it looks like a loss: {:?}", belief.gain_at(4));
        assert!(belief.update(false, rate(0.4), 4).is_some());
        let after = belief.gain_at(4);
        assert!((after.value - 0.26).abs() < 1e-9 && (0.26..0.27).contains(&after.error), "{after:?}");
        assert_eq!(belief.looks(), 0, "as before the first look");
    }

    #[test]
    fn what_was_drafted_at_a_pace_that_holds_is_kept() {
        let mut belief = hoped();
        for epoch in 1..4 {
            belief.update(true, rate(0.6), epoch);
        }
        assert!(belief.update(false, rate(1.1), 4).is_none());
        assert!(belief.gain_at(4).value < -0.4 && belief.looks() > 0, "{:?}", belief.gain_at(4));
    }

    #[test]
    fn a_change_that_lasts_is_followed_at_once() {
        let mut belief = hoped();
        alternate(&mut belief, 1..40, 1.5);
        alternate(&mut belief, 40..46, 0.6);
        assert!((belief.gain_at(46).value - 0.6_f64.ln()).abs() < 0.1, "{:?}", belief.gain_at(46));
    }

    #[test]
    fn an_epoch_whose_rounds_disagree_says_little() {
        let after = |error| {
            let mut belief = hoped();
            belief.update(true, Estimate { value: -0.3, error }, 1);
            belief.gain_at(1).value
        };
        assert!(after(1.0) > 0.2 && after(0.0) < -0.2, "{} {}", after(1.0), after(0.0));
    }
}
