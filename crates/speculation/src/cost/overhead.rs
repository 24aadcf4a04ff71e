//! What a round takes besides draft levels and the target's own computing: there and back, and the handing over between
//! threads. Nothing explains it but the machine and its connections, so it is only followed.

/// Share of its weight that a measurement loses in the mean when a new one arrives.
const FADE: f64 = 0.06;

/// Measurements farther off than so many times the usual are cut to that: the machine hiccups now and then.
const HICCUP: f64 = 3.0;

/// What is usually off before anything was measured, as a share of the duration.
const SPREAD: f64 = 0.5;

/// The spread counts as this share of the duration at the least, and as so many milliseconds, so that a change is noticed.
const SPREAD_MIN: f64 = 0.05;
const SPREAD_MIN_MS: f64 = 0.01;

/// Measurements of which the middle one is taken at first: any of them may be a hiccup, and what comes first often is.
const FIRST: usize = 5;

/// A running mean of durations; old ones fade, and one hiccup hardly counts.
#[derive(Debug, Clone)]
pub(super) struct Overhead {
    ms: f64,
    /// Mean distance of the measurements from the mean.
    spread: f64,
    /// The first [`FIRST`] measurements, by size.
    first: Vec<f64>,
}

impl Overhead {
    /// Believed to take `ms` until it is measured.
    pub(super) fn new(ms: f64) -> Self {
        Self { ms, spread: ms * SPREAD, first: Vec::with_capacity(FIRST) }
    }

    /// The mean of the last measurements, in milliseconds.
    pub(super) fn ms(&self) -> f64 {
        self.ms
    }

    /// It took this long.
    pub(super) fn add(&mut self, ms: f64) {
        if self.first.len() < FIRST {
            self.begin(ms);
            return;
        }
        let off = ms - self.ms;
        let cut = HICCUP * self.spread.max(self.ms * SPREAD_MIN).max(SPREAD_MIN_MS);
        self.ms += FADE * off.clamp(-cut, cut);
        // A change that lasts widens the cut, one hiccup does so by a little.
        self.spread += FADE * (off.abs().min(2.0 * cut) - self.spread);
    }

    fn begin(&mut self, ms: f64) {
        let place = self.first.partition_point(|&less| less < ms);
        self.first.insert(place, ms);
        self.ms = self.first[(self.first.len() - 1) / 2];
        self.spread = self.ms * SPREAD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(first: f64, then: f64, times: usize) -> f64 {
        let mut overhead = Overhead::new(9.0);
        (0..50).for_each(|_| overhead.add(first));
        (0..times).for_each(|_| overhead.add(then));
        overhead.ms()
    }

    #[test]
    fn the_first_measurement_replaces_the_belief() {
        let mut overhead = Overhead::new(9.0);
        assert_eq!(overhead.ms(), 9.0);
        overhead.add(0.5);
        assert_eq!(overhead.ms(), 0.5);
    }

    #[test]
    fn a_beginning_of_hiccups_is_none() {
        let mut overhead = Overhead::new(9.0);
        [40.0, 0.5, 0.6, 30.0, 0.4].into_iter().for_each(|ms| overhead.add(ms));
        assert_eq!(overhead.ms(), 0.6);
    }

    #[test]
    fn one_hiccup_hardly_counts_and_a_lasting_change_is_followed() {
        assert!(after(0.2, 80.0, 1) < 0.21);
        assert!((after(0.2, 2.0, 120) - 2.0).abs() < 0.1);
        assert!((after(2.0, 0.2, 120) - 0.2).abs() < 0.02);
        assert!((after(0.0, 2.0, 120) - 2.0).abs() < 0.1, "what took no time at first too");
    }
}
