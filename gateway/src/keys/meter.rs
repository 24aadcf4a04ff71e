//! What was used of a key's limits, by whoever shows it.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

use super::allowance::{Allowance, Left};
use super::file::KeyLimits;
use crate::admission::{Reason, Refusal};

/// What is left of a key's requests and tokens; without an allowance there is no limit.
#[derive(Debug)]
pub(super) struct Meter {
    requests: Option<Allowance>,
    tokens: Option<Allowance>,
}

/// What is left of a key's limits, where it has some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftOfKey {
    pub(crate) requests: Option<Left>,
    pub(crate) tokens: Option<Left>,
}

impl Meter {
    /// Nothing was used.
    pub(super) fn new(limits: &KeyLimits, now: Instant) -> Self {
        let mut meter = Self { requests: None, tokens: None };
        meter.set_limits(limits, now);
        meter
    }

    /// Goes by other limits from now on. What was used stays used.
    pub(super) fn set_limits(&mut self, limits: &KeyLimits, now: Instant) {
        set_rate(&mut self.requests, limits.requests_per_minute, now);
        set_rate(&mut self.tokens, limits.tokens_per_minute, now);
    }

    /// Counts a request, if there may be one. How many tokens it will use nobody knows yet, so it needs only some to be
    /// left, and those that come after it have to wait until what it used has flowed in.
    pub(super) fn begin(&mut self, now: Instant) -> Result<(), Refusal> {
        if let Some(tokens) = &mut self.tokens {
            let limit = tokens.per_minute();
            tokens.check(now).map_err(|wait| refusal(Reason::TokenRate { limit }, wait))?;
        }
        if let Some(requests) = &mut self.requests {
            let limit = requests.per_minute();
            requests.take(now).map_err(|wait| refusal(Reason::RequestRate { limit }, wait))?;
        }
        Ok(())
    }

    /// What is left of what is limited.
    pub(super) fn left(&mut self, now: Instant) -> LeftOfKey {
        let left = |allowance: &mut Option<Allowance>| allowance.as_mut().map(|allowance| allowance.left(now));
        LeftOfKey { requests: left(&mut self.requests), tokens: left(&mut self.tokens) }
    }

    /// So many tokens were read or generated.
    pub(super) fn charge(&mut self, tokens: usize, now: Instant) {
        if let Some(allowance) = &mut self.tokens {
            allowance.charge(tokens, now);
        }
    }
}

fn refusal(reason: Reason, wait: Duration) -> Refusal {
    Refusal { reason, retry_after: Some(wait) }
}

fn set_rate(allowance: &mut Option<Allowance>, per_minute: Option<NonZeroU32>, now: Instant) {
    match (allowance, per_minute) {
        (Some(allowance), Some(per_minute)) => allowance.set_rate(per_minute, now),
        (allowance, per_minute) => *allowance = per_minute.map(|per_minute| Allowance::new(per_minute, now)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(requests: u32, tokens: u32) -> KeyLimits {
        let [requests_per_minute, tokens_per_minute] = [requests, tokens].map(NonZeroU32::new);
        KeyLimits { requests_per_minute, tokens_per_minute, requests_max: None, weight: 1 }
    }

    fn refused(reason: Reason, seconds: u64, millis: u64) -> Result<(), Refusal> {
        Err(refusal(reason, Duration::from_secs(seconds) + Duration::from_millis(millis)))
    }

    #[test]
    fn requests_and_tokens_are_limited_each_by_its_own() {
        let now = Instant::now();
        let mut meter = Meter::new(&limits(2, 60), now);
        assert_eq!([meter.begin(now), meter.begin(now)], [Ok(()), Ok(())]);
        assert_eq!(meter.begin(now), refused(Reason::RequestRate { limit: 2 }, 30, 0));
        meter.charge(70, now);
        assert_eq!(meter.begin(now), refused(Reason::TokenRate { limit: 60 }, 10, 1));
        let free = now + Duration::from_secs(31);
        assert_eq!(meter.begin(free), Ok(()), "who was refused for its tokens was not counted as a request");
    }

    #[test]
    fn other_limits_forget_nothing_that_was_used() {
        let now = Instant::now();
        let mut meter = Meter::new(&limits(0, 0), now);
        meter.charge(1_000_000, now);
        assert_eq!(meter.begin(now), Ok(()));
        meter.set_limits(&limits(1, 6), now);
        assert_eq!(meter.begin(now), Ok(()), "where there was no limit, nothing was counted");
        meter.charge(7, now);
        meter.set_limits(&limits(60, 60), now);
        assert_eq!(meter.begin(now), refused(Reason::TokenRate { limit: 60 }, 1, 1));
        meter.set_limits(&limits(60, 0), now);
        assert_eq!(meter.begin(now), refused(Reason::RequestRate { limit: 60 }, 1, 0));
        meter.set_limits(&limits(0, 0), now);
        assert_eq!(meter.begin(now), Ok(()));
    }
}
