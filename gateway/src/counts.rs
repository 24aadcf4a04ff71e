//! What the gateway counts of its requests and their rounds.
//!
//! Requests add to it and never wait for each other longer than a count takes; whoever tells of it reads.

mod latency;
mod outcomes;
mod request;
mod source;
mod speculation;

use espalier_metrics::Histogram;
use espalier_metrics::catalogue::QUEUE_TIME;
use espalier_proto::{EndCounts, RoundCounters, RoundCounts};
use tokio::time::Instant;

use self::latency::Latencies;
use self::outcomes::{Failovers, Outcomes};
pub(crate) use self::request::Counted;
pub(crate) use self::source::GatewaySource;
use self::speculation::Speculation;

/// What the gateway counts.
#[derive(Debug)]
pub(crate) struct Counts {
    started: Instant,
    rounds: RoundCounters,
    outcomes: Outcomes,
    failovers: Failovers,
    latencies: Latencies,
    /// What requests waited for a slot, in seconds.
    queue_time: Histogram,
    speculation: Speculation,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            rounds: RoundCounters::default(),
            outcomes: Outcomes::default(),
            failovers: Failovers::default(),
            latencies: Latencies::default(),
            queue_time: Histogram::of(&QUEUE_TIME),
            speculation: Speculation::default(),
        }
    }
}

impl Counts {
    /// When it began to count.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// What became of all requests that are over.
    pub(crate) fn ended(&self) -> EndCounts {
        self.outcomes.sum()
    }

    /// All rounds.
    pub(crate) fn rounds(&self) -> RoundCounts {
        self.rounds.read()
    }
}
