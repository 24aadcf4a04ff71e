//! The options of `espalier top`.

use std::time::Duration;

use jiff::SignedDuration;

use crate::access::Access;

/// The options of `espalier top`.
#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// The gateway of the system.
    #[arg(long, env = "ESPALIER_GATEWAY", default_value = "http://127.0.0.1:50051", value_name = "URL")]
    pub(crate) gateway: String,
    #[command(flatten)]
    pub(crate) access: Access,
    /// The time between two readings, from 100ms to 3600s: rates are the differences of two.
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "N(ms|s)")]
    pub(crate) interval: Duration,
    /// Print a table of what one interval shows, and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, one object a reading; with `--once` one only.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads a time between two readings.
fn interval(text: &str) -> Result<Duration, String> {
    const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
    let read = text.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
    read.filter(|time| INTERVALS.contains(time)).ok_or_else(|| "a time is 100ms to 3600s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_and_bounds() {
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(interval("3600s"), Ok(Duration::from_secs(3600)));
        assert_eq!(interval("1.5s"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "1", "s", "99ms", "3601s", "-1s", "1x"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
