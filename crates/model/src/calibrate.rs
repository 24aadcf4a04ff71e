//! What a forward pass costs on this machine while nothing else runs.

use std::time::{Duration, Instant};

use crate::decoder::Decoder;
use crate::error::Result;
use crate::forward::{Depth, Logits, Row, Segment, Workspace};
use crate::kv_cache::KvCache;

/// Rows that are measured.
const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Tokens before the measured rows.
const CONTEXT: usize = 128;

/// Passes of which the median counts.
const PASSES: usize = 5;

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
            self.pass(work, &mut cache, before)?;
            cache.keep_path(&(0..before).collect::<Vec<_>>())?;
        }
        let fitting = ROWS.into_iter().filter(|rows| before + rows <= context);
        fitting.map(|rows| Ok((rows, self.median_pass(work, &mut cache, rows)?))).collect()
    }

    fn median_pass(&self, work: &mut Workspace, cache: &mut KvCache, rows: usize) -> Result<Duration> {
        let mut times = [Duration::ZERO; PASSES];
        for time in &mut times {
            let begun = Instant::now();
            self.pass(work, cache, rows)?;
            *time = begun.elapsed();
            cache.keep_path(&[])?;
        }
        times.sort_unstable();
        Ok(times[PASSES / 2])
    }

    /// Runs a chain of equal tokens: which ones they are does not matter.
    fn pass(&self, work: &mut Workspace, cache: &mut KvCache, rows: usize) -> Result<()> {
        let rows = Row::chain(&vec![0; rows], 0);
        let mut segments = [Segment { cache, rows: &rows, logits: Logits::All }];
        self.forward(work, &mut segments, Depth::default()).map(drop)
    }
}
