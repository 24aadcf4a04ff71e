//! What passes of a service had.

use std::time::Duration;

/// Sums over passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PassCounts {
    pub(crate) passes: u64,
    pub(crate) rows: u64,
    pub(crate) most_rows: u64,
    /// Sequences that were in them.
    pub(crate) sequences: u64,
    /// Sequences that could have been.
    pub(crate) could: u64,
    /// Time that they computed.
    pub(crate) busy: Duration,
}

impl PassCounts {
    /// A pass of so many rows for so many of the sequences that it could have been for.
    pub(crate) fn add(&mut self, rows: usize, sequences: usize, could: usize) {
        self.passes += 1;
        self.rows += rows as u64;
        self.most_rows = self.most_rows.max(rows as u64);
        self.sequences += sequences as u64;
        self.could += could.max(sequences) as u64;
    }

    /// All of both.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.passes += other.passes;
        self.rows += other.rows;
        self.most_rows = self.most_rows.max(other.most_rows);
        self.sequences += other.sequences;
        self.could += other.could;
        self.busy += other.busy;
    }

    /// Rows of a pass.
    pub(crate) fn mean_rows(&self) -> f64 {
        self.rows as f64 / self.passes.max(1) as f64
    }
}
