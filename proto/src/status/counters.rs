//! Counts that one thread adds to while others read them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use espalier_metrics::Histogram;
use espalier_metrics::catalogue::{PASS_DURATION, PASS_ROWS};

use super::{PassCounts, RoundCounts};

/// A count that only grows. Nothing else is ordered by it.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts passes without ever waiting.
#[derive(Debug)]
pub struct PassCounters {
    passes: Counter,
    rows: Counter,
    sequences: Counter,
    missed: Counter,
    /// Of each pass.
    pub(super) rows_of_pass: Histogram,
    pub(super) seconds_of_pass: Histogram,
}

impl Default for PassCounters {
    fn default() -> Self {
        Self {
            passes: Counter::default(),
            rows: Counter::default(),
            sequences: Counter::default(),
            missed: Counter::default(),
            rows_of_pass: Histogram::of(&PASS_ROWS),
            seconds_of_pass: Histogram::of(&PASS_DURATION),
        }
    }
}

impl PassCounters {
    /// One more pass over so many rows of so many sequences, and what it took.
    pub fn add(&self, rows: usize, sequences: usize, took: Duration) {
        self.passes.add(1);
        self.rows.add(rows as u64);
        self.sequences.add(sequences as u64);
        self.rows_of_pass.add(rows as f64);
        self.seconds_of_pass.add(took.as_secs_f64());
    }

    /// So many sequences could have been in the last pass and were not.
    pub fn miss(&self, sequences: usize) {
        self.missed.add(sequences as u64);
    }

    /// The counts so far; a pass that is being added may be counted in part.
    pub fn read(&self) -> PassCounts {
        PassCounts {
            passes: self.passes.read(),
            rows: self.rows.read(),
            sequences: self.sequences.read(),
            missed: self.missed.read(),
        }
    }
}

/// Counts rounds without ever waiting.
#[derive(Debug, Default)]
pub struct RoundCounters {
    rounds: Counter,
    drafted: Counter,
    verified: Counter,
    accepted: Counter,
    tokens: Counter,
}

impl RoundCounters {
    /// Adds what other rounds came to.
    pub fn add(&self, counts: &RoundCounts) {
        self.rounds.add(counts.rounds);
        self.drafted.add(counts.drafted);
        self.verified.add(counts.verified);
        self.accepted.add(counts.accepted);
        self.tokens.add(counts.tokens);
    }

    /// The counts so far; a round that is being added may be counted in part.
    pub fn read(&self) -> RoundCounts {
        RoundCounts {
            rounds: self.rounds.read(),
            drafted: self.drafted.read(),
            verified: self.verified.read(),
            accepted: self.accepted.read(),
            tokens: self.tokens.read(),
        }
    }
}
