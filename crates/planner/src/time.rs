//! Time since a simulation began.

use std::time::Duration;

/// A moment: how long after the beginning it is.
pub(crate) type Time = Duration;

/// So many milliseconds; none of what is no time at all.
pub(crate) fn of_ms(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default()
}

/// As milliseconds.
pub(crate) fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
