//! The pace of a run: what a millisecond is worth in tokens.

use crate::Costs;

/// Share of its weight that a round keeps when a new one comes: the last twenty decide, or the last fifty.
const KEEP: f64 = 0.95;
const KEEP_OF_DRAFTS: f64 = 0.98;

/// Tokens committed over time spent, both faded.
///
/// Time is counted in rounds of plain decoding, so that the pace follows a changing load at once.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    tokens: f64,
    steps: f64,
    keep: f64,
}

/// Rounds of plain decoding that are believed to have been, or the time of so many with drafts: one lucky round says little,
/// and first drafts are made with costs that are not known yet.
const BELIEF: f64 = 8.0;
const BELIEF_OF_DRAFTS: f64 = 32.0;

/// Rounds of plain decoding that count after something changed.
const FEW: f64 = 8.0;

/// What drafts are hoped to make of a round of plain decoding, in tokens: who never tries never knows.
const HOPE: f64 = 1.3;

impl Pace {
    /// Of all rounds; before the first, that of plain decoding.
    pub(super) fn of_plain_decoding() -> Self {
        Self { tokens: BELIEF, steps: BELIEF, keep: KEEP }
    }

    /// Of rounds with a draft; before the first, what is hoped for.
    pub(super) fn of_drafts() -> Self {
        Self { tokens: BELIEF_OF_DRAFTS * HOPE, steps: BELIEF_OF_DRAFTS, keep: KEEP_OF_DRAFTS }
    }

    /// Tokens in the time of a round of plain decoding.
    pub(super) fn per_step(&self) -> f64 {
        self.tokens / self.steps
    }

    /// The tokens that a millisecond can be expected to bring; plain decoding brings so many at
    /// the least.
    pub(super) fn tokens_per_ms(&self, costs: &Costs) -> f64 {
        self.per_step().max(1.0) / costs.plain_or_empty_tree_ms().max(f64::MIN_POSITIVE)
    }

    /// Much has changed for the worse: a few rounds are believed to have made what was learnt, and `enough` at the most.
    pub(super) fn doubt(&mut self, enough: f64) {
        self.believe(self.per_step().min(enough));
    }

    /// Much has changed for the better: a few rounds are believed to have made what was learnt, and what is hoped for at the
    /// least.
    pub(super) fn hope(&mut self) {
        self.believe(self.per_step().max(HOPE));
    }

    fn believe(&mut self, per_step: f64) {
        (self.tokens, self.steps) = (FEW * per_step, FEW);
    }

    /// Rounds of plain decoding take so many times as long as they were taken to.
    pub(super) fn correct(&mut self, error: f64) {
        self.steps /= error;
    }

    /// A round of so many plain steps committed `tokens`.
    pub(super) fn add(&mut self, tokens: usize, steps: f64) {
        self.tokens = self.keep * self.tokens + tokens as f64;
        self.steps = self.keep * self.steps + steps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Curve;

    fn costs(plain_ms: f64) -> Costs {
        Costs::new(Curve::line(1.0, 0.0), Curve::line(plain_ms, 0.1))
    }

    #[test]
    fn it_is_plain_decodings_at_the_least() {
        let mut pace = Pace::of_plain_decoding();
        assert_eq!(pace.tokens_per_ms(&costs(4.0)), 0.25);
        (0..100).for_each(|_| pace.add(1, 3.0));
        assert_eq!(pace.tokens_per_ms(&costs(4.0)), 0.25);
    }

    /// What drafts made, right after `change` and five rounds later, if they made `before` a plain round and then `later`.
    fn around(before: f64, later: f64, change: impl Fn(&mut Pace)) -> (f64, f64) {
        let mut pace = Pace::of_drafts();
        (0..200).for_each(|_| pace.add(4, 4.0 / before));
        change(&mut pace);
        let believed = pace.per_step();
        (0..5).for_each(|_| pace.add(4, 4.0 / later));
        (believed, pace.per_step())
    }

    #[test]
    fn what_is_doubted_is_soon_replaced() {
        let (believed, soon) = around(1.5, 0.5, |pace| pace.doubt(1.05));
        assert!(believed == 1.05 && soon < 0.7, "{believed} {soon}");
        assert!(around(0.8, 0.8, |pace| pace.doubt(1.05)).0 < 0.81);
        assert!(around(1.5, 0.5, |_| ()).1 > 1.0);
    }

    #[test]
    fn what_is_hoped_for_is_soon_replaced() {
        let (believed, soon) = around(0.5, 0.5, Pace::hope);
        assert!(believed == HOPE && soon < 0.7, "{believed} {soon}");
        assert!(around(1.8, 1.8, Pace::hope).0 > 1.79);
    }

    #[test]
    fn it_follows_the_last_rounds_and_the_load() {
        let mut pace = Pace::of_plain_decoding();
        (0..200).for_each(|_| pace.add(3, 1.5));
        assert!((pace.tokens_per_ms(&costs(4.0)) - 0.5).abs() < 1e-3);
        assert!((pace.tokens_per_ms(&costs(8.0)) - 0.25).abs() < 1e-3);
    }
}
