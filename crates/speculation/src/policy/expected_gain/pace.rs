//! The pace of a run: what a millisecond is worth in tokens.

use crate::Costs;

/// Share of its weight that a round keeps when a new one comes: the last twenty decide.
const KEEP: f64 = 0.95;

/// Tokens committed over time spent, both faded.
///
/// Time is counted in plain steps (`T_v(0)`), so that the pace follows a changing load at once.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    tokens: f64,
    steps: f64,
}

impl Default for Pace {
    /// That of plain decoding.
    fn default() -> Self {
        Self { tokens: 1.0, steps: 1.0 }
    }
}

impl Pace {
    /// The tokens that a millisecond can be expected to bring; plain decoding brings so many at
    /// the least.
    pub(super) fn tokens_per_ms(&self, costs: &Costs) -> f64 {
        (self.tokens / self.steps).max(1.0) / costs.verification.at(0).max(f64::MIN_POSITIVE)
    }

    /// A round of so many plain steps committed `tokens`.
    pub(super) fn add(&mut self, tokens: usize, steps: f64) {
        self.tokens = KEEP * self.tokens + tokens as f64;
        self.steps = KEEP * self.steps + steps;
    }
}
