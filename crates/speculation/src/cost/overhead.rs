//! What a round takes besides draft levels and the target's own computing: there and back, and the handing over between
//! threads. Nothing explains it but the machine and its connections, so it is only followed.

use super::robust::{FADE, HICCUP, LEAST_MS};

/// Measurements of which the middle one is taken at first: any of them may be a hiccup, and what comes first often is.
const FIRST: usize = 5;

/// A running mean of durations; old ones fade, and one hiccup hardly counts.
#[derive(Debug, Clone)]
pub(super) struct Overhead {
    ms: f64,
    /// The first [`FIRST`] measurements, by size.
    first: Vec<f64>,
}

impl Overhead {
    /// Believed to take `ms` until it is measured.
    pub(super) fn new(ms: f64) -> Self {
        Self { ms, first: Vec::with_capacity(FIRST) }
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
        let ms = ms.min(HICCUP * self.ms.max(LEAST_MS));
        self.ms += FADE * (ms - self.ms);
    }

    fn begin(&mut self, ms: f64) {
        let place = self.first.partition_point(|&less| less < ms);
        self.first.insert(place, ms);
        self.ms = self.first[(self.first.len() - 1) / 2];
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
        assert!(after(0.2, 80.0, 1) < 0.23);
        assert!((after(0.2, 2.0, 120) - 2.0).abs() < 0.1);
        assert!((after(2.0, 0.2, 120) - 0.2).abs() < 0.02);
        assert!((after(0.0, 2.0, 120) - 2.0).abs() < 0.1, "what took no time at first too");
    }
}
