//! A rate as it is believed, from epochs that measured it: a Kalman filter of one number that drifts.

/// Standard deviation of an epoch's rate as a share of it, beyond what its rounds tell: epochs follow each other on a machine
/// that others use too, so rounds of one are slow or fast together. Lower values trust single epochs and change sides often.
const JITTER: f64 = 0.06;

/// How far a rate drifts in one epoch, as a share of it: text, load and machine change. It is what has an arm tried again
/// that lost: after `n` epochs untried its standard error is `DRIFT * sqrt(n)`.
const DRIFT: f64 = 0.01;

/// A rate, in tokens a millisecond, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    rate: f64,
    /// Square of the standard error when it was measured last.
    variance: f64,
    /// The epoch in which that was.
    epoch: u64,
}

/// A rate and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) rate: f64,
    pub(super) error: f64,
}

impl Estimate {
    /// The same, `factor` times as great, and by `spread` of itself less sure.
    pub(super) fn scaled(self, factor: f64, spread: f64) -> Self {
        let rate = self.rate * factor;
        Self { rate, error: (self.error * factor).hypot(rate * spread) }
    }
}

impl Belief {
    /// What a first `measured` epoch says.
    pub(super) fn new(measured: Estimate, epoch: u64) -> Self {
        Self { rate: measured.rate, variance: noise(measured), epoch }
    }

    /// Takes what a further epoch `measured` into account.
    pub(super) fn update(&mut self, measured: Estimate, epoch: u64) {
        let before = self.variance_at(epoch);
        let gain = before / (before + noise(measured)).max(f64::MIN_POSITIVE);
        self.rate += gain * (measured.rate - self.rate);
        self.variance = (1.0 - gain) * before;
        self.epoch = epoch;
    }

    /// What is believed in `epoch`: the longer it was not measured, the less sure.
    pub(super) fn at(&self, epoch: u64) -> Estimate {
        Estimate { rate: self.rate, error: self.variance_at(epoch).sqrt() }
    }

    fn variance_at(&self, epoch: u64) -> f64 {
        let age = epoch.saturating_sub(self.epoch) as f64;
        self.variance + age * (self.rate * DRIFT).powi(2)
    }
}

/// The variance of what an epoch measured.
fn noise(measured: Estimate) -> f64 {
    measured.error.powi(2) + (measured.rate * JITTER).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rate: f64) -> Estimate {
        Estimate { rate, error: 0.0 }
    }

    #[test]
    fn many_epochs_make_sure_and_time_makes_unsure_again() {
        let mut belief = Belief::new(measured(2.0), 0);
        let first = belief.at(0).error;
        (1..20).for_each(|epoch| belief.update(measured([1.9, 2.1][epoch as usize % 2]), epoch));
        let Estimate { rate, error } = belief.at(19);
        assert!((rate - 2.0).abs() < 0.05 && error < first / 2.0, "{rate} {error}");
        assert!(belief.at(1019).error > 0.3 * rate);
    }

    #[test]
    fn a_change_that_lasts_is_followed() {
        let mut belief = Belief::new(measured(2.0), 0);
        (1..100).for_each(|epoch| belief.update(measured(2.0), epoch));
        (100..130).for_each(|epoch| belief.update(measured(1.0), epoch));
        assert!((belief.at(130).rate - 1.0).abs() < 0.05);
    }

    #[test]
    fn an_epoch_whose_rounds_disagree_says_little() {
        let after = |error| {
            let mut belief = Belief::new(measured(2.0), 0);
            belief.update(Estimate { rate: 1.0, error }, 1);
            belief.at(1).rate
        };
        assert!(after(1.0) > 1.95 && after(0.0) < 1.5);
    }
}
