//! What became of requests.

use std::collections::BTreeMap;

use espalier_metrics::Snapshot;
use espalier_metrics::catalogue::{FAILOVERS, REFUSALS, REQUESTS};
use espalier_proto::{EndCounts, Party};
use parking_lot::Mutex;

use crate::admission::Reason;
use crate::error::GatewayError;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It ended with a stop token or a stop string.
    Stop,
    /// It ended at its token limit.
    Length,
    /// It failed after it had been admitted.
    Failed,
    /// Its client went away.
    Abandoned,
    /// It was refused for want of room, or of a key.
    Refused,
    /// It was refused because of what it asked for.
    Invalid,
}

impl End {
    fn of(self, counts: &mut EndCounts) -> &mut u64 {
        match self {
            Self::Stop => &mut counts.stop,
            Self::Length => &mut counts.length,
            Self::Failed => &mut counts.failed,
            Self::Abandoned => &mut counts.abandoned,
            Self::Refused => &mut counts.refused,
            Self::Invalid => &mut counts.invalid,
        }
    }

    /// What a request that was not let in counts as.
    pub(super) fn turned_away(why: &GatewayError) -> Self {
        match why {
            GatewayError::Refused(_) | GatewayError::Key(_) | GatewayError::Surveys { .. } => Self::Refused,
            GatewayError::Request(_) => Self::Invalid,
            GatewayError::Fault(_) => Self::Failed,
        }
    }
}

/// The word for why a request was not let in.
fn reason(why: &GatewayError) -> &'static str {
    match why {
        GatewayError::Refused(refusal) => match refusal.reason {
            Reason::Full { .. } => "queue_full",
            Reason::Share { .. } => "queue_share",
            Reason::Client { .. } => "client_requests",
            Reason::RequestRate { .. } => "request_rate",
            Reason::TokenRate { .. } => "token_rate",
            Reason::Hopeless { .. } | Reason::Late => "deadline",
        },
        GatewayError::Key(_) => "key",
        GatewayError::Surveys { .. } => "surveys",
        GatewayError::Request(_) => "invalid",
        GatewayError::Fault(_) => "unavailable",
    }
}

/// How requests ended, by target, and why some were not let in.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// By target; that without a name is of requests whose target is not known.
    ended: Mutex<BTreeMap<String, EndCounts>>,
    refusals: Mutex<BTreeMap<&'static str, u64>>,
}

impl Outcomes {
    /// One more is over. There are no more names than targets were heard of.
    pub(super) fn end(&self, target: &str, end: End) {
        *end.of(self.ended.lock().entry(target.to_owned()).or_default()) += 1;
    }

    /// One more was not let in.
    pub(super) fn turn_away(&self, why: &GatewayError) {
        *self.refusals.lock().entry(reason(why)).or_default() += 1;
    }

    /// How all requests ended.
    pub(super) fn sum(&self) -> EndCounts {
        let ended = self.ended.lock();
        ended.values().fold(EndCounts::default(), |sum, more| EndCounts {
            stop: sum.stop + more.stop,
            length: sum.length + more.length,
            failed: sum.failed + more.failed,
            abandoned: sum.abandoned + more.abandoned,
            refused: sum.refused + more.refused,
            invalid: sum.invalid + more.invalid,
        })
    }

    pub(super) fn tell(&self, to: &mut Snapshot) {
        for (target, counts) in &*self.ended.lock() {
            let EndCounts { stop, length, failed, abandoned, refused, invalid } = *counts;
            let ends = [("stop", stop), ("length", length), ("failed", failed), ("abandoned", abandoned)];
            for (end, count) in ends.into_iter().chain([("refused", refused), ("invalid", invalid)]) {
                to.tell(&REQUESTS, &[target, end], count);
            }
        }
        for (reason, count) in &*self.refusals.lock() {
            to.tell(&REFUSALS, &[reason], *count);
        }
    }
}

/// Sequences that were opened again elsewhere.
#[derive(Debug, Default)]
pub(super) struct Failovers(Mutex<BTreeMap<&'static str, u64>>);

impl Failovers {
    /// One more, as `party` was lost.
    pub(super) fn lost(&self, party: Party) {
        *self.0.lock().entry(party.name()).or_default() += 1;
    }

    /// One more, as what it was at drains.
    pub(super) fn moved(&self) {
        *self.0.lock().entry("moved").or_default() += 1;
    }

    pub(super) fn tell(&self, to: &mut Snapshot) {
        for (party, count) in &*self.0.lock() {
            to.tell(&FAILOVERS, &[party], *count);
        }
    }
}
