//! What drafting makes of plain decoding as it is believed, from epochs that measured it: a Kalman filter of one number
//! that drifts.

/// Standard deviation of the ratio of two epochs that follow each other, as a share of it, beyond what their rounds tell:
/// a machine that others use too is faster in one than in the next. Lower values trust single tries and change sides often.
const JITTER: f64 = 0.08;

/// How far the ratio drifts in one epoch, as a share of it: text, load and machine change. It is what has a way tried
/// again that lost: after `n` epochs untried the standard error is `DRIFT * sqrt(n)`.
const DRIFT: f64 = 0.01;

/// A number and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Estimate {
    /// This over another, which was measured by itself.
    pub(super) fn over(self, other: Self) -> Self {
        let value = self.value / other.value.max(f64::MIN_POSITIVE);
        let share = |of: Self| of.error / of.value.max(f64::MIN_POSITIVE);
        Self { value, error: value * share(self).hypot(share(other)) }
    }

    /// The same, by `share` of itself less sure.
    pub(super) fn less_sure(self, share: f64) -> Self {
        Self { error: self.error.hypot(self.value * share), ..self }
    }
}

/// A ratio, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    ratio: f64,
    /// Square of the standard error when it was measured last.
    variance: f64,
    /// The epoch in which that was.
    epoch: u64,
}

impl Belief {
    /// What is `supposed` before it was measured.
    pub(super) fn new(supposed: Estimate, epoch: u64) -> Self {
        Self { ratio: supposed.value, variance: supposed.error.powi(2), epoch }
    }

    /// Takes into account what two epochs, the later of them `epoch`, `measured`.
    pub(super) fn update(&mut self, measured: Estimate, epoch: u64) {
        let before = self.variance_at(epoch);
        let noise = measured.less_sure(JITTER).error.powi(2);
        let gain = before / (before + noise).max(f64::MIN_POSITIVE);
        self.ratio += gain * (measured.value - self.ratio);
        self.variance = (1.0 - gain) * before;
        self.epoch = epoch;
    }

    /// What is believed in `epoch`: the longer it was not measured, the less sure.
    pub(super) fn at(&self, epoch: u64) -> Estimate {
        Estimate { value: self.ratio, error: self.variance_at(epoch).sqrt() }
    }

    fn variance_at(&self, epoch: u64) -> f64 {
        let age = epoch.saturating_sub(self.epoch) as f64;
        self.variance + age * (self.ratio * DRIFT).powi(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(value: f64) -> Estimate {
        Estimate { value, error: 0.0 }
    }

    fn hoped() -> Belief {
        Belief::new(Estimate { value: 1.3, error: 0.3 }, 0)
    }

    #[test]
    fn many_tries_make_sure_and_time_makes_unsure_again() {
        let mut belief = hoped();
        (1..20).for_each(|epoch| belief.update(measured([0.85, 0.95][epoch as usize % 2]), epoch));
        let Estimate { value, error } = belief.at(19);
        assert!((value - 0.9).abs() < 0.02 && error < 0.04, "{value} {error}");
        assert!(belief.at(1019).error > 0.25);
    }

    #[test]
    fn a_change_that_lasts_is_followed() {
        let mut belief = hoped();
        (1..100).for_each(|epoch| belief.update(measured(1.5), epoch));
        (100..140).for_each(|epoch| belief.update(measured(0.7), epoch));
        assert!((belief.at(140).value - 0.7).abs() < 0.05);
    }

    #[test]
    fn a_try_whose_rounds_disagree_says_little() {
        let after = |error| {
            let mut belief = hoped();
            belief.update(Estimate { value: 0.7, error }, 1);
            belief.at(1).value
        };
        assert!(after(1.0) > 1.2 && after(0.0) < 0.8);
    }

    #[test]
    fn the_error_of_a_ratio_is_that_of_both() {
        let draft = Estimate { value: 3.0, error: 0.3 };
        let plain = Estimate { value: 2.0, error: 0.1 };
        let ratio = draft.over(plain);
        assert!((ratio.value - 1.5).abs() < 1e-12 && (ratio.error / ratio.value - 0.1_f64.hypot(0.05)).abs() < 1e-12);
    }
}
