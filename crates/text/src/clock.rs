//! Dates for chat templates that print today's.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// Formats a moment in UTC by the directives of `strftime`; `None` if `format` holds another. A clock that no calendar
/// knows the date of counts as 1970.
pub(crate) fn strftime(format: &str, at: SystemTime) -> Option<String> {
    let moment = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC);
    strtime::format(format, &moment).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn known_moments() {
        let format = "%Y-%m-%d %H:%M:%S %a %A %b %B %y %e %I %p %%";
        let cases = [
            (0, "1970-01-01 00:00:00 Thu Thursday Jan January 70  1 12 AM %"),
            (951_782_400, "2000-02-29 00:00:00 Tue Tuesday Feb February 00 29 12 AM %"),
            (1_709_251_199, "2024-02-29 23:59:59 Thu Thursday Feb February 24 29 11 PM %"),
            (4_107_542_400, "2100-03-01 00:00:00 Mon Monday Mar March 00  1 12 AM %"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(strftime(format, at(seconds)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn unknown_directives_are_refused() {
        assert_eq!(strftime("%!", at(0)), None);
        assert_eq!(strftime("100%", at(0)), None);
    }
}
