//! What is left of a key's limits, in the headers that OpenAI's clients know.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};

use crate::keys::{Holder, Left};

/// The headers of something that is limited: how much of it there is in a minute, how much is left, and when all is again.
struct Names {
    limit: &'static str,
    left: &'static str,
    reset: &'static str,
}

const REQUESTS: Names = Names {
    limit: "x-ratelimit-limit-requests",
    left: "x-ratelimit-remaining-requests",
    reset: "x-ratelimit-reset-requests",
};

const TOKENS: Names = Names {
    limit: "x-ratelimit-limit-tokens",
    left: "x-ratelimit-remaining-tokens",
    reset: "x-ratelimit-reset-tokens",
};

/// Adds what is left to whoever shows a key, of what is limited.
pub(super) fn add_rates(headers: &mut HeaderMap, holder: &Holder) {
    let left = holder.left();
    for (names, left) in [(REQUESTS, left.requests), (TOKENS, left.tokens)] {
        let Some(Left { limit, left, full_in }) = left else { continue };
        headers.insert(names.limit, HeaderValue::from(limit));
        headers.insert(names.left, HeaderValue::from(left));
        if let Ok(reset) = HeaderValue::from_str(&written(full_in)) {
            headers.insert(names.reset, reset);
        }
    }
}

/// As the API writes a time: `1m2s`, `850ms`.
fn written(time: Duration) -> String {
    match (time.as_secs() / 60, time.as_secs() % 60) {
        (0, 0) => format!("{}ms", time.as_millis()),
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_api_does() {
        let written = [0, 850, 1000, 59_999, 61_000, 600_000].map(|millis| written(Duration::from_millis(millis)));
        assert_eq!(written, ["0ms", "850ms", "1s", "59s", "1m1s", "10m0s"]);
    }
}
