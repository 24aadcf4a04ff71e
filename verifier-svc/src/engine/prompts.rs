//! How long the target reads prompts, for those that measure rounds beside them.

use std::time::Duration;

use espalier_speculation::Curve;

/// Time that passes spent on prompts. A pass shares rounds with prompts; what those took of it is told from what passes of
/// so many rows cost.
#[derive(Debug, Clone)]
pub struct PromptTime {
    /// Cost of a pass by its rows.
    costs: Curve,
    spent: Duration,
}

impl PromptTime {
    /// Nothing was read yet; passes cost so much.
    pub fn new(costs: Curve) -> Self {
        Self { costs, spent: Duration::ZERO }
    }

    /// A pass of so many `rows`, of which so many were of `prompts`, took so long.
    pub fn add(&mut self, rows: usize, prompts: usize, took: Duration) {
        let without = match rows.saturating_sub(prompts) {
            0 => 0.0,
            decided => self.costs.at(decided) / self.costs.at(rows).max(f64::MIN_POSITIVE),
        };
        if prompts > 0 {
            self.spent += took.mul_f64((1.0 - without).clamp(0.0, 1.0));
        }
    }

    /// All of it so far.
    pub fn spent(&self) -> Duration {
        self.spent
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn of_a_pass_prompts_have_taken_what_it_would_not_have_without_them() {
        let ms = Duration::from_millis;
        let curve = Curve::through([(1, 1.0), (8, 1.0), (64, 8.0)]).unwrap();
        let spent = |rows, prompts, took| {
            let mut time = PromptTime::new(curve);
            time.add(rows, prompts, ms(took));
            time.spent().as_secs_f64() * 1e3
        };
        assert_eq!(spent(8, 0, 5), 0.0);
        assert_eq!(spent(60, 60, 5), 5.0);
        // A pass of 8 rows would have taken an eighth of one of 64, at whatever pace the machine has.
        assert!((spent(64, 56, 8) - 7.0).abs() < 1e-6 && (spent(64, 56, 16) - 14.0).abs() < 1e-6);
        // Up to 8 rows more cost nothing.
        assert_eq!(spent(8, 7, 3), 0.0);
    }
}
