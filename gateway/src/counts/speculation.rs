//! What came of rounds, by target and drafter.

use std::collections::BTreeMap;
use std::sync::Arc;

use espalier_metrics::Snapshot;
use espalier_metrics::catalogue::{
    ACCEPTANCE_COLLAPSED, ACCEPTED_TOKENS, ACCEPTED_TOKENS_PER_POSITION, DRAFT_TOKENS, DRAFTS, ROUND_TIME, ROUNDS,
    TOKENS_COMMITTED,
};
use espalier_proto::RoundReport;
use espalier_speculation::{AcceptanceWatch, WatchEvent};
use parking_lot::Mutex;

use crate::tally::Tally;

/// The most pairs of a target and a drafter that are counted apart; further ones are counted as one without names.
const PAIRS_MAX: usize = 1024;

/// The deepest position that is counted apart.
const POSITIONS_MAX: usize = 32;

/// Rounds by target and drafter.
#[derive(Debug, Default)]
pub(super) struct Speculation(Mutex<BTreeMap<Pair, Arc<OfPair>>>);

/// A target, and who drafts for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub(super) target: String,
    pub(super) drafter: String,
}

/// The rounds of a pair.
#[derive(Debug)]
pub(super) struct OfPair {
    pair: Pair,
    sums: Mutex<Sums>,
}

/// What the rounds of a pair come to.
#[derive(Debug, Clone, Default)]
struct Sums {
    tally: Tally,
    trees: u64,
    watch: AcceptanceWatch,
}

impl Speculation {
    /// The rounds of a pair.
    pub(super) fn of(&self, pair: Pair) -> Arc<OfPair> {
        let mut pairs = self.0.lock();
        let room = pairs.len() < PAIRS_MAX || pairs.contains_key(&pair);
        let pair = if room { pair } else { Pair::default() };
        let new = || Arc::new(OfPair { pair: pair.clone(), sums: Mutex::default() });
        Arc::clone(pairs.entry(pair.clone()).or_insert_with(new))
    }

    pub(super) fn tell(&self, to: &mut Snapshot) {
        // Told without the lock, so that requests do not wait.
        let pairs: Vec<_> = self.0.lock().values().cloned().collect();
        pairs.iter().for_each(|pair| pair.tell(to));
    }
}

impl OfPair {
    /// Whether these are the rounds of that drafter.
    pub(super) fn is_of(&self, drafter: &str) -> bool {
        self.pair.drafter == drafter
    }

    /// One more round.
    pub(super) fn add(&self, report: &RoundReport) {
        let mut sums = self.sums.lock();
        sums.tally.add(report);
        if report.cost.verified == 0 {
            return;
        }
        sums.trees += 1;
        let event = sums.watch.add(report.accepted > 0);
        drop(sums);
        self.say(event);
    }

    /// Says when far fewer draft tokens are accepted than before, and when that is over.
    fn say(&self, event: Option<WatchEvent>) {
        let Pair { target, drafter } = &self.pair;
        match event {
            Some(WatchEvent::Collapsed { usual, lately }) => tracing::warn!(
                target = target,
                drafter,
                usual,
                lately,
                "acceptance has collapsed: of trees that had a token accepted, the share is less than half of what is usual"
            ),
            Some(WatchEvent::Recovered) => tracing::info!(target = target, drafter, "acceptance is as usual again"),
            None => {}
        }
    }

    fn tell(&self, to: &mut Snapshot) {
        let Sums { tally, trees, watch } = self.sums.lock().clone();
        let Pair { target, drafter } = &self.pair;
        let labels = [target.as_str(), drafter.as_str()];
        let (counts, rounds) = (tally.statistics.sums(), tally.statistics.rounds());
        to.tell(&DRAFTS, &labels, trees);
        to.tell(&DRAFT_TOKENS, &labels, counts.verified);
        to.tell(&ACCEPTED_TOKENS, &labels, counts.accepted);
        to.tell(&ROUNDS, &labels, rounds);
        to.tell(&TOKENS_COMMITTED, &labels, counts.committed);
        to.tell(&ACCEPTANCE_COLLAPSED, &labels, watch.has_collapsed());
        for (position, accepted) in tally.statistics.accepted_by_depth().iter().take(POSITIONS_MAX).enumerate() {
            to.tell(&ACCEPTED_TOKENS_PER_POSITION, &[target, drafter, &position.to_string()], *accepted);
        }
        for (part, time) in [("draft", tally.draft), ("verify", tally.verify), ("wait", tally.wait)] {
            to.tell(&ROUND_TIME, &[target, drafter, part], time.as_secs_f64());
        }
    }
}
