//! How speculation went, summed up: of a request for its client, of a target and a drafter for metrics.

use std::time::Duration;

use espalier_proto::{RoundReport, SpeculationSummary};
use espalier_speculation::{PolicySpec, RoundRecord, Statistics};

/// Counts and times of rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) statistics: Statistics,
    pub(crate) draft: Duration,
    pub(crate) verify: Duration,
    pub(crate) wait: Duration,
}

impl Tally {
    /// One more round.
    pub(crate) fn add(&mut self, report: &RoundReport) {
        let cost = &report.cost;
        self.statistics.add(&RoundRecord {
            drafted: cost.drafted,
            verified: cost.verified,
            depth: cost.depth,
            accepted: report.accepted,
            committed: report.tokens.len(),
        });
        self.draft += cost.draft;
        self.verify += cost.verify;
        self.wait += cost.wait;
    }

    /// The sums; `drafter` and `policy` are those of the last rounds.
    pub(crate) fn summary(&self, drafter: &str, policy: &PolicySpec, failovers: u32) -> SpeculationSummary {
        let sums = self.statistics.sums();
        SpeculationSummary {
            rounds: self.statistics.rounds() as u64,
            drafted: sums.drafted as u64,
            verified: sums.verified as u64,
            depth: sums.depth as u64,
            accepted: sums.accepted as u64,
            accepted_by_depth: self.statistics.accepted_by_depth().iter().map(|&count| count as u64).collect(),
            tau: self.statistics.tau(),
            draft: self.draft,
            verify: self.verify,
            wait: self.wait,
            drafter: drafter.to_owned(),
            policy: policy.to_string(),
            failovers,
        }
    }
}
