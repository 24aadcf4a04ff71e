//! How much is asked at once, or how often.

use std::time::Duration;

use crate::draws::Draws;

/// The least number of requests of a turn, unless told otherwise.
const REQUESTS_MIN: usize = 32;

/// Requests of a turn for each one that is under way at once, or for each a second, unless told otherwise.
const WAVES: f64 = 6.0;

/// What a system is put under.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Level {
    /// So many requests are under way at all times: whoever has its answer asks again.
    Concurrency(usize),
    /// So many requests a second arrive, whatever becomes of them, as independent clients send them.
    Rate(f64),
}

impl Level {
    /// The figure.
    pub(super) fn figure(self) -> f64 {
        match self {
            Self::Concurrency(count) => count as f64,
            Self::Rate(rate) => rate,
        }
    }

    /// How many requests tell what the system does at this level.
    pub(super) fn requests(self) -> usize {
        REQUESTS_MIN.max((WAVES * self.figure()).ceil() as usize)
    }
}

/// When each of `count` requests arrives, `rate` a second on average: a Poisson process, the same for the same seed.
pub(super) fn arrivals(rate: f64, count: usize, seed: u64) -> Vec<Duration> {
    let mut draws = Draws::new(seed);
    let pauses = (0..count).map(|_| -draws.share().ln() / rate);
    pauses
        .scan(0.0, |at, pause| {
            *at += pause;
            // A rate so small that this is no duration is one at which nobody ever comes.
            Some(Duration::try_from_secs_f64(*at).unwrap_or(Duration::MAX))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_several_waves_long() {
        assert_eq!([1, 8, 64].map(|count| Level::Concurrency(count).requests()), [32, 48, 384]);
        assert_eq!([0.5, 20.3].map(|rate| Level::Rate(rate).requests()), [32, 122]);
    }

    #[test]
    fn arrivals_are_independent_of_each_other_and_the_same_for_the_same_seed() {
        let at = arrivals(50.0, 5000, 7);
        assert_eq!(at, arrivals(50.0, 5000, 7));
        assert_ne!(at, arrivals(50.0, 5000, 8));
        assert!(at.is_sorted());
        let pauses: Vec<f64> = at.windows(2).map(|two| (two[1] - two[0]).as_secs_f64()).collect();
        let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
        // Exponential: mean 1 / 50 with a standard error of 1.4 %, and a share of 1 / e beyond it.
        assert!((mean * 50.0 - 1.0).abs() < 0.05, "{mean}");
        let beyond = pauses.iter().filter(|&&pause| pause > 0.02).count() as f64 / pauses.len() as f64;
        assert!((beyond - (-1.0_f64).exp()).abs() < 0.03, "{beyond}");
    }
}
