//! By when an answer is of use: the `grpc-timeout` of a request.

use std::time::Duration;

use http::HeaderMap;
use thiserror::Error;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;

/// The header that carries a request's remaining time.
pub(crate) const TIMEOUT_HEADER: &str = "grpc-timeout";

/// The protocol allows at most so many digits.
const TIMEOUT_DIGITS_MAX: usize = 8;

/// A `grpc-timeout` that breaks the protocol's rules.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("grpc-timeout `{value}` is not 1 to {TIMEOUT_DIGITS_MAX} digits and one of the units H, M, S, m, u, n")]
pub struct DeadlineError {
    /// The header's value.
    pub value: String,
}

/// The moment after which nobody waits for the answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// So much time from now.
    pub fn after(remaining: Duration) -> Self {
        Self(Instant::now() + remaining)
    }

    /// The deadline that a request's metadata states, if any.
    ///
    /// # Errors
    /// [`DeadlineError`] quotes a `grpc-timeout` that cannot be understood.
    pub fn of(metadata: &MetadataMap) -> Result<Option<Self>, DeadlineError> {
        Self::from_headers(metadata.as_ref())
    }

    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, DeadlineError> {
        let Some(value) = headers.get(TIMEOUT_HEADER) else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(value.as_bytes());
        let remaining = parse_timeout(&text).ok_or_else(|| DeadlineError { value: text.into() })?;
        Ok(Some(Self::after(remaining)))
    }

    /// Time left; zero once it has passed.
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// The moment itself, for timers.
    pub fn instant(self) -> Instant {
        self.0
    }

    /// The header value that tells another service how much time is left.
    pub(crate) fn timeout_value(self) -> String {
        format_timeout(self.remaining())
    }
}

fn parse_timeout(text: &str) -> Option<Duration> {
    let (unit_at, unit) = text.char_indices().next_back()?;
    let digits = &text[..unit_at];
    if !(1..=TIMEOUT_DIGITS_MAX).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        'H' => Some(Duration::from_secs(count * 3600)),
        'M' => Some(Duration::from_secs(count * 60)),
        'S' => Some(Duration::from_secs(count)),
        'm' => Some(Duration::from_millis(count)),
        'u' => Some(Duration::from_micros(count)),
        'n' => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// The finest unit in which the time fits into the protocol's digits.
fn format_timeout(remaining: Duration) -> String {
    const LIMIT: u128 = 10u128.pow(TIMEOUT_DIGITS_MAX as u32);
    let units = [(remaining.as_micros(), 'u'), (remaining.as_millis(), 'm'), (u128::from(remaining.as_secs()), 'S')];
    units
        .into_iter()
        .find(|(count, _)| *count < LIMIT)
        .map_or_else(|| format!("{}S", LIMIT - 1), |(count, unit)| format!("{count}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_of_the_protocol_is_understood() {
        let cases = [
            ("2H", Duration::from_secs(7200)),
            ("3M", Duration::from_secs(180)),
            ("4S", Duration::from_secs(4)),
            ("250m", Duration::from_millis(250)),
            ("99999999u", Duration::from_micros(99_999_999)),
            ("7n", Duration::from_nanos(7)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_timeout(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_and_quoted() {
        for text in ["", "S", "10", "1.5S", "-1S", "123456789S", "5s", "4\u{e9}"] {
            assert_eq!(parse_timeout(text), None, "{text}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(TIMEOUT_HEADER, http::HeaderValue::from_static("soon"));
        let refusal = Deadline::from_headers(&headers).expect_err("soon is no time");
        assert!(refusal.to_string().contains("`soon`"));
    }

    #[test]
    fn no_header_means_no_deadline() {
        assert_eq!(Deadline::of(&MetadataMap::new()), Ok(None));
    }

    #[test]
    fn a_long_time_is_written_in_a_coarser_unit() {
        assert_eq!(format_timeout(Duration::from_micros(1500)), "1500u");
        assert_eq!(format_timeout(Duration::from_secs(100)), "100000m");
        assert_eq!(format_timeout(Duration::from_secs(1_000_000)), "1000000S");
        assert_eq!(format_timeout(Duration::MAX), "99999999S");
    }

    #[tokio::test(start_paused = true)]
    async fn the_remaining_time_runs_out_and_stays_at_zero() {
        let deadline = Deadline::after(Duration::from_millis(10));
        tokio::time::advance(Duration::from_millis(4)).await;
        assert_eq!(deadline.remaining(), Duration::from_millis(6));
        tokio::time::advance(Duration::from_millis(40)).await;
        assert_eq!(deadline.remaining(), Duration::ZERO);
    }
}
