//! What a forward pass costs on this machine while nothing else runs.

use std::time::{Duration, Instant};

use crate::decoder::Decoder;
use crate::error::Result;
use crate::kv_cache::KvCache;
use crate::rows::{Asked, Logits, Row, Segment};
use crate::states::States;
use crate::workspace::Workspace;

/// Rows that are measured.
const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Tokens before the measured rows.
const CONTEXT: usize = 128;

/// Passes over each number of rows, of which the median counts. They take turns, so that a busy moment of the machine
/// falls on all of them alike: what matters most is how they compare.
const PASSES: usize = 15;

impl Decoder {
    /// The median time of passes over 1 to 32 rows after 128 tokens, as far as the model's context allows: pairs of rows
    /// and time, fewest rows first.
    ///
    /// # Errors
    /// As for [`Decoder::forward`]; none for a model that was loaded.
    pub fn measure_passes(&self, work: &mut Workspace) -> Result<Vec<(usize, Duration)>> {
        let context = self.config().context;
        let before = CONTEXT.min(context / 2);
        let mut cache = self.new_cache();
        if before > 0 {
            self.fill(work, &mut cache, before)?;
        }
        let fitting = ROWS.into_iter().filter(|rows| before + rows <= context);
        let mut times: Vec<(usize, Vec<Duration>)> = fitting.map(|rows| (rows, Vec::new())).collect();
        for _ in 0..PASSES {
            for (rows, times) in &mut times {
                times.push(self.timed_pass(work, &mut cache, *rows)?);
            }
        }
        Ok(times.into_iter().map(|(rows, times)| (rows, median(times))).collect())
    }

    /// Commits a chain of equal tokens, with hidden states beside them where the model reads those.
    fn fill(&self, work: &mut Workspace, cache: &mut KvCache, rows: usize) -> Result<()> {
        if self.cache_layers() > self.layers() {
            let (tokens, states) = (vec![0; rows], vec![0.0; rows * self.config().hidden]);
            return self.append_states(work, &mut [States { cache, tokens: &tokens, states: &states }]);
        }
        self.pass(work, cache, rows)?;
        cache.keep_path(&(0..rows).collect::<Vec<_>>())
    }

    fn timed_pass(&self, work: &mut Workspace, cache: &mut KvCache, rows: usize) -> Result<Duration> {
        let begun = Instant::now();
        self.pass(work, cache, rows)?;
        let took = begun.elapsed();
        cache.keep_path(&[])?;
        Ok(took)
    }

    /// Runs a chain of equal tokens: which ones they are does not matter.
    fn pass(&self, work: &mut Workspace, cache: &mut KvCache, rows: usize) -> Result<()> {
        let rows = Row::chain(&vec![0; rows], 0);
        let mut segments = [Segment { cache, rows: &rows, logits: Logits::All }];
        self.forward(work, &mut segments, Asked::default()).map(drop)
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
