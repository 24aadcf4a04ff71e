//! When to draft although it is not expected to pay: text, drafter and load change.

use crate::RoundRecord;

/// Rounds from giving up to the first probe.
const SHORTEST: usize = 4;

/// Counts rounds without a draft. The wait doubles with every probe of which nothing is accepted,
/// so that a hopeless drafter costs next to nothing.
#[derive(Debug, Clone)]
pub(super) struct Probing {
    idle: usize,
    wait: usize,
    longest: usize,
}

impl Probing {
    pub(super) fn new(longest: usize) -> Self {
        Self { idle: 0, wait: SHORTEST.min(longest), longest }
    }

    /// Whether to probe in this round.
    pub(super) fn due(&self) -> bool {
        self.idle >= self.wait
    }

    /// Learns how a round went that was, or was not, a probe.
    pub(super) fn observe(&mut self, probe: bool, round: &RoundRecord) {
        if round.drafted == 0 {
            self.idle += 1;
            return;
        }
        self.idle = 0;
        let hopeless = probe && round.accepted == 0;
        let wait = if hopeless { self.wait * 2 } else { SHORTEST };
        self.wait = wait.min(self.longest);
    }
}
