//! The pace of a run: what a millisecond is worth in tokens.

use crate::Costs;

/// Share of its weight that a round keeps when a new one comes: the last twenty decide.
const PACE_KEEP: f64 = 0.95;

/// Tokens committed over time spent, both faded; of rounds that were drafted for.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    tokens: f64,
    ms: f64,
}

impl Pace {
    /// The tokens that a millisecond can be expected to bring: those of a round without a draft at the least.
    pub(super) fn tokens_per_ms(&self, costs: &Costs) -> f64 {
        let undrafted = 1.0 / costs.verification.at(0).max(f64::MIN_POSITIVE);
        if self.ms > 0.0 { (self.tokens / self.ms).max(undrafted) } else { undrafted }
    }

    /// A round of so many milliseconds committed `tokens`.
    pub(super) fn add(&mut self, tokens: usize, ms: f64) {
        self.tokens = PACE_KEEP * self.tokens + tokens as f64;
        self.ms = PACE_KEEP * self.ms + ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Curve;

    fn costs(undrafted_ms: f64) -> Costs {
        Costs::new(Curve::line(1.0, 0.0), Curve::line(undrafted_ms, 0.1))
    }

    #[test]
    fn it_is_that_of_rounds_without_a_draft_at_the_least() {
        let mut pace = Pace::default();
        assert_eq!(pace.tokens_per_ms(&costs(4.0)), 0.25);
        (0..100).for_each(|_| pace.add(1, 12.0));
        assert_eq!(pace.tokens_per_ms(&costs(4.0)), 0.25);
    }

    #[test]
    fn it_follows_the_last_rounds() {
        let mut pace = Pace::default();
        (0..200).for_each(|_| pace.add(3, 12.0));
        (0..200).for_each(|_| pace.add(3, 6.0));
        assert!((pace.tokens_per_ms(&costs(4.0)) - 0.5).abs() < 1e-3);
    }
}
