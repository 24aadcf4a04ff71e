//! How speculation went, as clients are told at the end.

use std::time::Duration;

use crate::error::WireError;
use crate::pb;

/// How speculation went over a whole generation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpeculationSummary {
    /// Verification rounds.
    pub rounds: u64,
    /// Nodes drafted, before pruning.
    pub drafted: u64,
    /// Nodes sent and verified.
    pub verified: u64,
    /// Depths of the deepest nodes sent, summed over the rounds.
    pub depth: u64,
    /// Draft tokens committed.
    pub accepted: u64,
    /// Rounds that accepted a node of depth `i + 1`, at index `i`.
    pub accepted_by_depth: Vec<u64>,
    /// Committed tokens per round; `None` before the first.
    pub tau: Option<f64>,
    /// Time spent growing trees.
    pub draft: Duration,
    /// Time the target spent computing.
    pub verify: Duration,
    /// Time spent waiting for outcomes beyond that.
    pub wait: Duration,
    /// Who drafted last: a drafter's name, `ngram` or `none`.
    pub drafter: String,
    /// The policy, every parameter included.
    pub policy: String,
    /// How often the sequence was opened again elsewhere.
    pub failovers: u32,
}

pub(crate) fn write_summary(summary: SpeculationSummary) -> pb::SpeculationStatistics {
    pb::SpeculationStatistics {
        rounds: summary.rounds,
        drafted: summary.drafted,
        verified: summary.verified,
        depth: summary.depth,
        accepted: summary.accepted,
        accepted_by_depth: summary.accepted_by_depth,
        tau: summary.tau,
        draft_ms: millis(summary.draft),
        verify_ms: millis(summary.verify),
        wait_ms: millis(summary.wait),
        drafter: summary.drafter,
        policy: summary.policy,
        failovers: summary.failovers,
    }
}

pub(crate) fn read_summary(wire: pb::SpeculationStatistics) -> Result<SpeculationSummary, WireError> {
    Ok(SpeculationSummary {
        rounds: wire.rounds,
        drafted: wire.drafted,
        verified: wire.verified,
        depth: wire.depth,
        accepted: wire.accepted,
        accepted_by_depth: wire.accepted_by_depth,
        tau: wire.tau.map(|tau| read_ratio("tau", tau)).transpose()?,
        draft: read_millis("draft_ms", wire.draft_ms)?,
        verify: read_millis("verify_ms", wire.verify_ms)?,
        wait: read_millis("wait_ms", wire.wait_ms)?,
        drafter: wire.drafter,
        policy: wire.policy,
        failovers: wire.failovers,
    })
}

fn read_ratio(field: &'static str, value: f64) -> Result<f64, WireError> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(WireError::Ratio { field, value }) }
}

/// From so many milliseconds on, which are eleven days, a float does not hold nanoseconds.
const WHOLE_MILLIS_FROM: f64 = 1e9;

/// From so many on, which are thirty thousand years, it does not hold milliseconds.
const MILLIS_MAX: f64 = 1e15;

/// A time as clients are told it.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn read_millis(field: &'static str, wire_ms: f64) -> Result<Duration, WireError> {
    let fault = || WireError::Time { field, value_ms: wire_ms };
    let millis = if wire_ms < WHOLE_MILLIS_FROM { wire_ms } else { wire_ms.round() };
    if millis > MILLIS_MAX {
        return Err(fault());
    }
    Duration::try_from_secs_f64(millis / 1e3).map_err(|_| fault())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_time_that_is_none_is_refused() {
        let statistics = pb::SpeculationStatistics { draft_ms: f64::NAN, ..Default::default() };
        assert!(matches!(read_summary(statistics), Err(WireError::Time { field: "draft_ms", .. })));
        let statistics = pb::SpeculationStatistics { wait_ms: 1e15 + 1.0, ..Default::default() };
        assert!(matches!(read_summary(statistics), Err(WireError::Time { field: "wait_ms", .. })));
    }

    #[test]
    fn times_of_any_length_survive_the_wire() {
        for wire_ms in [0.0, 1e-6, 0.123_456, 999_999_999.999_999, 1e9, 1_234_567_890_123.25, 999_999_999_999_999.0] {
            let read = |verify_ms| read_summary(pb::SpeculationStatistics { verify_ms, ..Default::default() }).unwrap();
            let summary = read(wire_ms);
            assert_eq!(read(write_summary(summary.clone()).verify_ms), summary, "{wire_ms}");
        }
    }

    #[test]
    fn a_ratio_that_is_none_is_refused() {
        for tau in [f64::NAN, f64::INFINITY, -1.0] {
            let refusal = read_summary(pb::SpeculationStatistics { tau: Some(tau), ..Default::default() }).unwrap_err();
            assert_eq!(refusal.to_string(), format!("tau is {tau}, which is no number from 0 on"));
        }
    }
}
