//! Chains: trees of width 1 that end where a test says so.

use super::{Policy, RoundStart};
use crate::RoundRecord;
use crate::draft::Draft;

/// Decides after each level whether drafting should stop.
///
/// It sees the whole draft, so it can end a tree's growth as well as a chain's.
pub(super) trait StopTest: Send {
    /// Starts a round.
    fn begin(&mut self, _start: &RoundStart) {}

    /// Whether it makes something of a predictor's chances.
    fn reads_predictions(&self) -> bool {
        false
    }

    /// Whether to stop, the newest level of `draft` included; asked once a level.
    fn stops(&mut self, draft: &Draft) -> bool;

    /// Learns how the round went.
    fn observe(&mut self, _round: &RoundRecord) {}
}

/// The chain that a stop test ends; it has at least one token.
pub(super) struct Chain(pub(super) Box<dyn StopTest>);

impl Policy for Chain {
    fn begin(&mut self, start: &RoundStart) {
        self.0.begin(start);
    }

    fn width(&self) -> usize {
        1
    }

    fn suits_drawn(&self) -> bool {
        true
    }

    fn reads_predictions(&self) -> bool {
        self.0.reads_predictions()
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        if draft.levels() > 0 && self.0.stops(draft) {
            return Vec::new();
        }
        draft.expandable().collect()
    }

    fn observe(&mut self, round: &RoundRecord, _path: &[usize]) {
        self.0.observe(round);
    }
}
