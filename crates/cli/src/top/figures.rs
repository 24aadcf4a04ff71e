//! From two readings of a system's counts to its figures.

#[cfg(test)]
mod tests;

use std::time::Duration;

use espalier_proto::{
    DrafterStatus, EndCounts, GatewayStatus, KvMemory, PassCounts, Process, RoundCounts, ServiceState, Slots,
    SystemStatus, TargetStatus, VerifierStatus,
};
use serde::Serialize;

/// What a system does between two readings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) gateway: Gateway,
    pub(super) targets: Vec<Service>,
    pub(super) drafters: Vec<Service>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Gateway {
    pub(super) uptime_s: f64,
    pub(super) resident_bytes: Option<u64>,
    pub(super) running: usize,
    pub(super) running_max: usize,
    pub(super) queued: usize,
    pub(super) ended: EndCounts,
    pub(super) pace: Pace,
}

/// A verifier or a drafter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Service {
    pub(super) name: Option<String>,
    pub(super) url: String,
    pub(super) up: bool,
    /// None if it did not tell.
    pub(super) work: Option<Work>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Work {
    pub(super) uptime_s: f64,
    pub(super) resident_bytes: Option<u64>,
    pub(super) sequences: usize,
    pub(super) sequences_max: usize,
    /// Trees that wait for the target, or are being grown.
    pub(super) trees: usize,
    pub(super) pace: Pace,
    /// Rows of a forward pass.
    pub(super) rows: Option<f64>,
    /// Sequences that share one.
    pub(super) shared_by: Option<f64>,
    pub(super) kv: KvMemory,
    /// What products are computed in.
    pub(super) arithmetic: String,
    /// What a drafter does for each target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) targets: Vec<ForTarget>,
}

/// A drafter's work for one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ForTarget {
    pub(super) name: String,
    pub(super) sequences: usize,
    pub(super) pace: Pace,
}

/// What rounds came to between the readings; none where there is nothing to divide by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Pace {
    pub(super) tokens_per_second: Option<f64>,
    /// Committed tokens a round.
    pub(super) tau: Option<f64>,
    /// Nodes verified a round.
    pub(super) nodes: Option<f64>,
    /// The share of them that was committed.
    pub(super) accepted: Option<f64>,
}

impl Figures {
    /// What was done between two readings; without an earlier one there are no rates.
    pub(super) fn between(before: Option<&SystemStatus>, now: &SystemStatus) -> Self {
        Self {
            gateway: Gateway::between(before.map(|before| &before.gateway), &now.gateway),
            targets: services(before.map_or(&[], |before| &before.verifiers), &now.verifiers),
            drafters: services(before.map_or(&[], |before| &before.drafters), &now.drafters),
        }
    }
}

impl Gateway {
    fn between(before: Option<&GatewayStatus>, now: &GatewayStatus) -> Self {
        let interval = before.and_then(|before| interval(before.process, now.process));
        Self {
            uptime_s: now.process.uptime.as_secs_f64(),
            resident_bytes: now.process.resident_bytes,
            running: now.requests.open,
            running_max: now.requests.max,
            queued: now.requests_queued,
            ended: now.ended,
            pace: Pace::between(interval, before.map(|before| before.rounds), now.rounds),
        }
    }
}

/// What verifiers and drafters have in common.
struct Told<'a> {
    process: Process,
    sequences: Slots,
    trees: usize,
    passes: PassCounts,
    rounds: RoundCounts,
    kv: KvMemory,
    targets: &'a [TargetStatus],
    arithmetic: &'a str,
}

impl<'a> From<&'a VerifierStatus> for Told<'a> {
    fn from(status: &'a VerifierStatus) -> Self {
        let &VerifierStatus { process, sequences, trees_waiting: trees, passes, rounds, kv, ref arithmetic } = status;
        Self { process, sequences, trees, passes, rounds, kv, targets: &[], arithmetic }
    }
}

impl<'a> From<&'a DrafterStatus> for Told<'a> {
    fn from(status: &'a DrafterStatus) -> Self {
        let &DrafterStatus {
            process,
            sequences,
            trees_growing: trees,
            passes,
            rounds,
            kv,
            ref targets,
            ref arithmetic,
        } = status;
        Self { process, sequences, trees, passes, rounds, kv, targets, arithmetic }
    }
}

/// The services of a reading, each beside itself in the one before.
fn services<'a, S>(before: &'a [ServiceState<S>], now: &'a [ServiceState<S>]) -> Vec<Service>
where
    Told<'a>: From<&'a S>,
{
    let earlier = |url: &str| before.iter().find(|before| before.url == url)?.status.as_ref().map(Told::from);
    let service = |state: &'a ServiceState<S>| Service {
        name: state.name.clone(),
        url: state.url.clone(),
        up: state.up,
        work: state.status.as_ref().map(|now| Work::between(earlier(&state.url).as_ref(), &Told::from(now))),
    };
    now.iter().map(service).collect()
}

impl Work {
    fn between(before: Option<&Told<'_>>, now: &Told<'_>) -> Self {
        let interval = before.and_then(|before| interval(before.process, now.process));
        let passes = interval.and(before).and_then(|before| passes_since(before.passes, now.passes));
        let of_pass = |count: fn(PassCounts) -> u64| passes.and_then(|passes| ratio(count(passes), passes.passes));
        Self {
            uptime_s: now.process.uptime.as_secs_f64(),
            resident_bytes: now.process.resident_bytes,
            sequences: now.sequences.open,
            sequences_max: now.sequences.max,
            trees: now.trees,
            pace: Pace::between(interval, before.map(|before| before.rounds), now.rounds),
            rows: of_pass(|passes| passes.rows),
            shared_by: of_pass(|passes| passes.sequences),
            kv: now.kv,
            arithmetic: now.arithmetic.to_owned(),
            targets: now.targets.iter().map(|target| ForTarget::between(interval, before, target)).collect(),
        }
    }
}

impl ForTarget {
    fn between(interval: Option<Duration>, before: Option<&Told<'_>>, now: &TargetStatus) -> Self {
        let earlier = before.and_then(|before| before.targets.iter().find(|earlier| earlier.name == now.name));
        // A target that is new has had no rounds before.
        let earlier = before.map(|_| earlier.map_or_else(RoundCounts::default, |earlier| earlier.rounds));
        let pace = Pace::between(interval, earlier, now.rounds);
        Self { name: now.name.clone(), sequences: now.sequences_open, pace }
    }
}

impl Pace {
    fn between(interval: Option<Duration>, before: Option<RoundCounts>, now: RoundCounts) -> Self {
        let Some((interval, counts)) = interval.zip(before.and_then(|before| rounds_since(before, now))) else {
            return Self::default();
        };
        Self {
            tokens_per_second: Some(counts.tokens as f64 / interval.as_secs_f64()),
            tau: ratio(counts.tokens, counts.rounds),
            nodes: ratio(counts.verified, counts.rounds),
            accepted: ratio(counts.accepted, counts.verified),
        }
    }
}

/// The time between two readings of a service, by its own clock; none if it was started anew in between.
fn interval(before: Process, now: Process) -> Option<Duration> {
    now.uptime.checked_sub(before.uptime).filter(|interval| !interval.is_zero())
}

/// What was counted between two readings; none if the later one shows less, which is so after a new start.
fn rounds_since(before: RoundCounts, now: RoundCounts) -> Option<RoundCounts> {
    Some(RoundCounts {
        rounds: now.rounds.checked_sub(before.rounds)?,
        drafted: now.drafted.checked_sub(before.drafted)?,
        verified: now.verified.checked_sub(before.verified)?,
        accepted: now.accepted.checked_sub(before.accepted)?,
        tokens: now.tokens.checked_sub(before.tokens)?,
    })
}

/// The same of passes.
fn passes_since(before: PassCounts, now: PassCounts) -> Option<PassCounts> {
    Some(PassCounts {
        passes: now.passes.checked_sub(before.passes)?,
        rows: now.rows.checked_sub(before.rows)?,
        sequences: now.sequences.checked_sub(before.sequences)?,
        missed: now.missed.checked_sub(before.missed)?,
    })
}

fn ratio(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| count as f64 / of as f64)
}
