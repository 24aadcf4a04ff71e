//! What a verification costs on this machine while nothing else runs.

use std::time::{Duration, Instant};

use espalier_model::{Decoder, Depth, KvCache, Logits, ModelError, Row, Segment, Workspace};
use espalier_proto::RowCost;

/// Rows that are measured.
const ROWS: [usize; 5] = [1, 2, 4, 8, 16];

/// Tokens before the measured rows.
const CONTEXT: usize = 128;

/// Passes of which the median counts.
const PASSES: usize = 5;

/// The cost of passes over 1, 2, 4, 8 and 16 rows after 128 tokens, as far as
/// the model's context allows.
pub(crate) fn calibrate(decoder: &Decoder, work: &mut Workspace) -> Result<Vec<RowCost>, ModelError> {
    let mut cache = decoder.new_cache();
    let before = CONTEXT.min(decoder.config().context / 2);
    if before > 0 {
        pass(decoder, work, &mut cache, before)?;
        let read: Vec<usize> = (0..before).collect();
        cache.keep_path(&read)?;
    }
    let fits = |rows: &&usize| before + **rows <= decoder.config().context;
    ROWS.iter().filter(fits).map(|&rows| median_cost(decoder, work, &mut cache, rows)).collect()
}

fn median_cost(
    decoder: &Decoder,
    work: &mut Workspace,
    cache: &mut KvCache,
    rows: usize,
) -> Result<RowCost, ModelError> {
    let committed = cache.committed();
    let mut times = [Duration::ZERO; PASSES];
    for time in &mut times {
        let begun = Instant::now();
        pass(decoder, work, cache, rows)?;
        *time = begun.elapsed();
        cache.roll_back_to(committed);
    }
    times.sort_unstable();
    Ok(RowCost { rows, time: times[PASSES / 2] })
}

/// Runs a chain of `rows` equal tokens: which ones they are does not matter.
fn pass(decoder: &Decoder, work: &mut Workspace, cache: &mut KvCache, rows: usize) -> Result<(), ModelError> {
    let rows = Row::chain(&vec![0; rows], 0);
    let mut segments = [Segment { cache, rows: &rows, logits: Logits::All }];
    decoder.forward(work, &mut segments, Depth::default()).map(drop)
}
