//! What growing a tree takes.

use std::time::Duration;

/// What the steps of the present round took.
#[derive(Default)]
pub(super) struct StepTimes {
    pub(super) all: Duration,
    /// Of each that says what a level costs, by its rows.
    pub(super) levels: Vec<(usize, Duration)>,
    /// Of each level, what is read before the first included.
    pub(super) each: Vec<Duration>,
    /// Of reading, for the level that follows.
    reading: Duration,
}

impl StepTimes {
    /// A step took so long; what `only_reads` is part of the level that follows.
    pub(super) fn ran(&mut self, took: Duration, only_reads: bool) {
        self.all += took;
        self.reading += took;
        if !only_reads {
            self.each.push(std::mem::take(&mut self.reading));
        }
    }
}
