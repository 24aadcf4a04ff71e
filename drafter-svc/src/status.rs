//! What the drafter tells of its work.

use std::collections::BTreeMap;
use std::sync::Arc;

use espalier_proto::{PassCounters, RoundCounters, RoundCounts, TARGETS_MAX, TargetStatus};
use espalier_service_kit::{Gauge, Present};
use parking_lot::Mutex;

/// What the drafter counts. The engine adds and never waits; anybody reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) passes: Arc<PassCounters>,
    /// Sequences for which a tree is being grown.
    pub(crate) growing: Gauge,
    /// Of all targets.
    rounds: Arc<RoundCounters>,
    /// Of each target, by name.
    targets: Arc<Mutex<BTreeMap<String, OfTarget>>>,
}

/// What is counted for one target.
#[derive(Debug, Clone, Default)]
struct OfTarget {
    sequences: Gauge,
    rounds: Arc<RoundCounters>,
}

/// Counts one sequence, for as long as it lives, and its rounds.
#[derive(Debug)]
pub(crate) struct Counted {
    rounds: Arc<RoundCounters>,
    /// None for a target that there is no room to count apart.
    target: Option<(Arc<RoundCounters>, Present)>,
}

impl Counts {
    /// A sequence for a target.
    pub(crate) fn sequence(&self, target: &str) -> Counted {
        Counted { rounds: Arc::clone(&self.rounds), target: self.target(target) }
    }

    fn target(&self, name: &str) -> Option<(Arc<RoundCounters>, Present)> {
        let mut targets = self.targets.lock();
        if targets.len() >= TARGETS_MAX && !targets.contains_key(name) {
            return None;
        }
        let target = targets.entry(name.to_owned()).or_default();
        Some((Arc::clone(&target.rounds), target.sequences.enter()))
    }

    /// Rounds of all targets.
    pub(crate) fn rounds(&self) -> RoundCounts {
        self.rounds.read()
    }

    /// The targets by name.
    pub(crate) fn targets(&self) -> Vec<TargetStatus> {
        let targets = self.targets.lock();
        let status = |(name, target): (&String, &OfTarget)| TargetStatus {
            name: name.clone(),
            sequences_open: target.sequences.read(),
            rounds: target.rounds.read(),
        };
        targets.iter().map(status).collect()
    }
}

impl Counted {
    /// Adds what a round came to.
    pub(crate) fn add(&self, counts: &RoundCounts) {
        self.rounds.add(counts);
        if let Some((rounds, _)) = &self.target {
            rounds.add(counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: RoundCounts = RoundCounts { rounds: 1, drafted: 4, verified: 3, accepted: 2, tokens: 3 };

    #[test]
    fn sequences_are_counted_while_they_live_and_rounds_for_ever() {
        let counts = Counts::default();
        let (first, second) = (counts.sequence("small"), counts.sequence("medium"));
        first.add(&ROUND);
        drop(first);
        second.add(&ROUND);
        let target = |name: &str, sequences_open| TargetStatus { name: name.to_owned(), sequences_open, rounds: ROUND };
        assert_eq!(counts.targets(), [target("medium", 1), target("small", 0)]);
        assert_eq!(counts.rounds(), RoundCounts { rounds: 2, drafted: 8, verified: 6, accepted: 4, tokens: 6 });
    }

    #[test]
    fn targets_beyond_the_limit_count_in_the_sum_alone() {
        let counts = Counts::default();
        for target in 0..=TARGETS_MAX {
            counts.sequence(&format!("target {target}")).add(&ROUND);
        }
        assert_eq!((counts.targets().len(), counts.rounds().rounds), (TARGETS_MAX, TARGETS_MAX as u64 + 1));
    }
}
