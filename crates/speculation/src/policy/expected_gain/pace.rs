//! The pace of a run: what a millisecond is worth in tokens.

use crate::Costs;

/// Share of its weight that a round keeps when a new one comes: the last twenty decide.
const KEEP: f64 = 0.95;

/// Tokens committed over time spent, both faded.
///
/// Time is counted in rounds of plain decoding, so that the pace follows a changing load at once.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    tokens: f64,
    steps: f64,
}

/// Rounds of plain decoding that are believed to have been: one lucky round says little.
const BELIEF: f64 = 8.0;

impl Default for Pace {
    /// That of plain decoding.
    fn default() -> Self {
        Self { tokens: BELIEF, steps: BELIEF }
    }
}

impl Pace {
    /// The tokens that a millisecond can be expected to bring; plain decoding brings so many at
    /// the least.
    pub(super) fn tokens_per_ms(&self, costs: &Costs) -> f64 {
        (self.tokens / self.steps).max(1.0) / costs.plain_ms.max(f64::MIN_POSITIVE)
    }

    /// A round of so many plain steps committed `tokens`.
    pub(super) fn add(&mut self, tokens: usize, steps: f64) {
        self.tokens = KEEP * self.tokens + tokens as f64;
        self.steps = KEEP * self.steps + steps;
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
        let mut pace = Pace::default();
        assert_eq!(pace.tokens_per_ms(&costs(4.0)), 0.25);
        (0..100).for_each(|_| pace.add(1, 3.0));
        assert_eq!(pace.tokens_per_ms(&costs(4.0)), 0.25);
    }

    #[test]
    fn it_follows_the_last_rounds_and_the_load() {
        let mut pace = Pace::default();
        (0..200).for_each(|_| pace.add(3, 1.5));
        assert!((pace.tokens_per_ms(&costs(4.0)) - 0.5).abs() < 1e-3);
        assert!((pace.tokens_per_ms(&costs(8.0)) - 0.25).abs() < 1e-3);
    }
}
