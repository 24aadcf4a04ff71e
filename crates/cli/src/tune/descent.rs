//! Coordinate descent over a grid of thresholds: one after the other is set to what measured best.

use espalier_speculation::{ExitError, ExitThresholds, THRESHOLD_GRID, ThresholdTuner};

/// A search that is told what was measured.
#[derive(Debug, Clone)]
pub(super) struct Descent {
    best: ExitThresholds,
    /// The exit whose threshold is being set, counted from 0.
    exit: usize,
    /// Settings that are still to come at most.
    left: usize,
    /// Thresholds in a row, up to the last one set, that cannot be set better as the others are now.
    settled: usize,
}

impl Descent {
    /// A search for a drafter of so many exits that goes over all thresholds at most so many times.
    ///
    /// # Errors
    /// A number of exits that no drafter has.
    pub(super) fn new(exits: usize, passes: usize) -> Result<Self, ExitError> {
        // It begins where a drafter that tunes itself does.
        let best = ThresholdTuner::new(exits, 0)?.best().clone();
        let left = passes.saturating_mul(best.thresholds().len());
        Ok(Self { best, exit: 0, left, settled: 0 })
    }

    /// What is best so far.
    pub(super) fn best(&self) -> &ExitThresholds {
        &self.best
    }

    /// The exit whose threshold is being set, counted from 0.
    pub(super) fn exit(&self) -> usize {
        self.exit
    }

    /// Settings that are still to come at most.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// What is to be measured next, one for each value of the grid; nothing when the search is over.
    ///
    /// # Errors
    /// Never for a grid of probabilities.
    pub(super) fn candidates(&self) -> Result<Vec<ExitThresholds>, ExitError> {
        if self.left == 0 {
            return Ok(Vec::new());
        }
        let set_to = |value: f64| {
            let thresholds = (0..).zip(self.best.thresholds());
            let thresholds = thresholds.map(|(exit, &old)| if exit == self.exit { value } else { old });
            ExitThresholds::new(thresholds.collect(), self.best.exits())
        };
        THRESHOLD_GRID.iter().map(|&value| set_to(value)).collect()
    }

    /// Goes on from the fastest of `measured`, each of the candidates with its tokens per second. What is as fast as the
    /// best so far does not replace it.
    pub(super) fn choose(&mut self, measured: &[(ExitThresholds, f64)]) {
        let present = measured.iter().find(|(thresholds, _)| *thresholds == self.best).map_or(0.0, |(_, rate)| *rate);
        let faster = measured.iter().filter(|(_, rate)| *rate > present).max_by(|(_, a), (_, b)| a.total_cmp(b));
        // What was just set stays the best until another changes.
        self.settled = if faster.is_some() { 1 } else { self.settled + 1 };
        if let Some((thresholds, _)) = faster {
            self.best = thresholds.clone();
        }
        let count = self.best.thresholds().len();
        self.exit = (self.exit + 1) % count.max(1);
        self.left = if self.settled >= count { 0 } else { self.left.saturating_sub(1) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Searches a surface; gives the result and how many times a threshold was set.
    fn search(exits: usize, passes: usize, rate: impl Fn(&[f64]) -> f64) -> (String, usize) {
        let mut descent = Descent::new(exits, passes).unwrap();
        let mut settings = 0;
        loop {
            let candidates = descent.candidates().unwrap();
            if candidates.is_empty() {
                return (descent.best().to_string(), settings);
            }
            assert_eq!(candidates.len(), THRESHOLD_GRID.len());
            let measured = candidates.into_iter().map(|thresholds| {
                let rate = rate(thresholds.thresholds());
                (thresholds, rate)
            });
            descent.choose(&measured.collect::<Vec<_>>());
            settings += 1;
        }
    }

    #[test]
    fn it_finds_the_top_and_ends_when_nothing_changes() {
        let hill = |x: &[f64]| 10.0 - (x[0] - 0.8).abs() - (x[1] - 0.3).abs();
        assert_eq!(search(3, 9, hill), ("0.8,0.3".to_owned(), 3));
        let only_the_second = |x: &[f64]| x[1];
        assert_eq!(search(3, 9, only_the_second), ("0.6,1".to_owned(), 3));
    }

    #[test]
    fn it_ends_after_so_many_passes_and_at_once_where_nothing_is_to_be_set() {
        assert_eq!(search(3, 1, |x| x[0] + x[1]), ("1,1".to_owned(), 2));
        assert_eq!(search(2, 5, |x| x[0]), ("1".to_owned(), 1));
        assert_eq!(search(1, 3, |_| 1.0), (String::new(), 0));
    }

    #[test]
    fn where_all_are_alike_nothing_changes() {
        assert_eq!(search(4, 5, |_| 7.0), ("0.6,0.6,0.6".to_owned(), 3));
    }
}
