//! What a soak found.

use std::time::Duration;

use espalier_command::report::{json, mark};
use espalier_model::BlockCounts;
use espalier_proto::Party;
use serde::Serialize;

use super::ending::Ending;
use super::fate::Fate;
use super::level::Level;
use crate::statistics::Spread;

/// How much more memory may be resident afterwards.
const GROWTH_MAX: f64 = 0.05;

/// What a system that is idle holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) level: Level,
    /// The blocks of each model, by the name of its service.
    pub(super) blocks: Vec<(String, BlockCounts)>,
}

/// Counts of endings, and what was left before and after.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    sequences: usize,
    pub(super) finished: usize,
    pub(super) cancelled: usize,
    pub(super) late: usize,
    pub(super) refused: usize,
    /// Those of them that the gateway itself refused.
    refused_by_gateway: usize,
    /// Sequences that ended as they should not have.
    pub(super) improper: usize,
    /// What was wrong with the first of them.
    pub(super) objection: Option<String>,
    seconds: f64,
    /// From a request to its refusal.
    refusal_ms: Option<Spread>,
    /// The slowest of them.
    refusal_ms_max: Option<f64>,
    tasks_before: usize,
    pub(super) tasks_after: usize,
    /// Requests that the gateway still knows of.
    pub(super) requests_left: usize,
    /// Blocks that are held or promised still.
    pub(super) blocks_left: usize,
    /// Whether, without what lingers, each model has the blocks that it began with.
    pub(super) blocks_as_before: bool,
    resident_before: Option<usize>,
    resident_after: Option<usize>,
}

impl Report {
    /// Sums up how sequences ended; the blocks of `before` are those of a system that nobody has asked anything.
    pub(super) fn new(endings: &[(Fate, Ending)], took: Duration, before: &Held, after: &Held) -> Self {
        let count = |of: fn(&Ending) -> bool| endings.iter().filter(|(_, ending)| of(ending)).count();
        let objections: Vec<String> = endings.iter().filter_map(|(fate, ending)| ending.objection(*fate)).collect();
        let refusals_ms = refusals_ms(endings);
        Self {
            sequences: endings.len(),
            finished: count(|ending| matches!(ending, Ending::Finished { .. })),
            cancelled: count(|ending| matches!(ending, Ending::Cancelled)),
            late: count(|ending| matches!(ending, Ending::Late)),
            refused: count(|ending| matches!(ending, Ending::Refused { .. })),
            refused_by_gateway: count(|ending| matches!(ending, Ending::Refused { by: Party::Gateway, .. })),
            improper: objections.len(),
            objection: objections.into_iter().next(),
            seconds: took.as_secs_f64(),
            refusal_ms: Spread::of(refusals_ms.iter().copied()),
            refusal_ms_max: refusals_ms.into_iter().reduce(f64::max),
            tasks_before: before.level.tasks,
            tasks_after: after.level.tasks,
            requests_left: after.level.requests,
            blocks_left: after.level.blocks,
            blocks_as_before: before.blocks == after.blocks,
            resident_before: before.level.resident,
            resident_after: after.level.resident,
        }
    }

    /// What was to hold, and whether it does.
    fn findings(&self) -> [(bool, String); 4] {
        let mib = |bytes: Option<usize>| bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        let why = self.objection.as_ref().map(|why| format!(", the first: {why}")).unwrap_or_default();
        [
            (self.improper == 0, format!("{} sequences ended as they should not{why}", self.improper)),
            (
                self.is_free(),
                format!(
                    "{} requests and {} blocks are left; the pools are {} at first",
                    self.requests_left,
                    self.blocks_left,
                    if self.blocks_as_before { "as" } else { "not as" }
                ),
            ),
            (self.has_no_more_tasks(), format!("{} tasks, {} before", self.tasks_after, self.tasks_before)),
            (
                self.has_no_more_memory(),
                format!("{} resident, {} before", mib(self.resident_after), mib(self.resident_before)),
            ),
        ]
    }

    /// Whether no slot and no block is held.
    pub(super) fn is_free(&self) -> bool {
        self.requests_left == 0 && self.blocks_left == 0 && self.blocks_as_before
    }

    pub(super) fn has_no_more_tasks(&self) -> bool {
        self.tasks_after <= self.tasks_before
    }

    fn has_no_more_memory(&self) -> bool {
        let grown = self.resident_after.zip(self.resident_before);
        grown.is_none_or(|(after, before)| after as f64 <= before as f64 * (1.0 + GROWTH_MAX))
    }

    /// Whether all is as it should be.
    pub(super) fn is_sound(&self) -> bool {
        self.findings().iter().all(|(good, _)| *good)
    }

    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            return json(self);
        }
        let Self { sequences, finished, cancelled, late, refused, refused_by_gateway, seconds, .. } = self;
        anstream::println!(
            "{sequences} sequences in {seconds:.0} s: {finished} finished, {cancelled} cancelled, {late} late, {refused} refused"
        );
        if let (Some(Spread { p50, p99, .. }), Some(max)) = (self.refusal_ms, self.refusal_ms_max) {
            anstream::println!(
                "refused after {p50:.1} ms (p50), {p99:.1} ms (p99), {max:.1} ms (max), {refused_by_gateway} by the gateway itself"
            );
        }
        for (good, words) in self.findings() {
            anstream::println!("{} {words}", mark(good));
        }
    }
}

/// How long each refusal took.
fn refusals_ms(endings: &[(Fate, Ending)]) -> Vec<f64> {
    let refusal = |ending: &Ending| match ending {
        Ending::Refused { after, .. } => Some(1e3 * after.as_secs_f64()),
        _ => None,
    };
    endings.iter().filter_map(|(_, ending)| refusal(ending)).collect()
}
