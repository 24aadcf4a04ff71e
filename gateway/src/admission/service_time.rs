//! How long requests keep their slots, and what that says of waiting.

use std::time::Duration;

/// The share of a new observation in the mean: the last twenty or so count.
const NEW_SHARE: f64 = 1.0 / 16.0;

/// When to come again while nobody knows how long requests take.
const RETRY_UNKNOWN: Duration = Duration::from_millis(250);

/// The least and the most that anybody is told to stay away.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A running mean; none before the first observation.
#[derive(Debug, Default)]
pub(super) struct ServiceTime(Option<Duration>);

impl ServiceTime {
    /// Somebody kept a slot for so long.
    pub(super) fn add(&mut self, held: Duration) {
        self.0 = Some(match self.0 {
            Some(mean) => mean.mul_f64(1.0 - NEW_SHARE).saturating_add(held.mul_f64(NEW_SHARE)),
            None => held,
        });
    }

    /// How long until `count` of `slots`, all of them taken, have become free, if that can be told.
    pub(super) fn until_free(&self, count: usize, slots: usize) -> Option<Duration> {
        let mean = self.0?.as_secs_f64();
        Duration::try_from_secs_f64(mean * count as f64 / slots.max(1) as f64).ok()
    }

    /// When to come again who finds so many before him.
    pub(super) fn retry_after(&self, count: usize, slots: usize) -> Duration {
        self.until_free(count, slots).unwrap_or(RETRY_UNKNOWN).clamp(RETRY_MIN, RETRY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_mean_follows_what_requests_take_and_outlives_an_outlier() {
        let mut time = ServiceTime::default();
        assert_eq!(time.until_free(1, 1), None);
        time.add(SECOND);
        assert_eq!(time.until_free(1, 1), Some(SECOND));
        time.add(17 * SECOND);
        assert_eq!(time.until_free(1, 1), Some(2 * SECOND));
        (0..200).for_each(|_| time.add(4 * SECOND));
        assert!(time.until_free(1, 1).is_some_and(|mean| mean.abs_diff(4 * SECOND) < SECOND / 100));
    }

    #[test]
    fn who_is_refused_is_told_how_long_the_queue_takes_within_bounds() {
        let mut time = ServiceTime::default();
        assert_eq!(time.retry_after(1000, 1), RETRY_UNKNOWN);
        time.add(SECOND);
        assert_eq!(time.retry_after(64, 16), 4 * SECOND);
        assert_eq!((time.retry_after(1, 1000), time.retry_after(1000, 1)), (RETRY_MIN, RETRY_MAX));
    }
}
