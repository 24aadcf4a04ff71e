//! Sequences verified in one pass, next to each of them in a pass of its own.

use std::time::Instant;

use espalier_model::{Decoder, Depth, KvCache, Logits, ModelError, Row, Segment, Workspace};
use serde::Serialize;

use super::pass::{Turns, cache, sharing_caches, tree};
use crate::statistics::median;

/// Sequences verified together.
pub(super) const SEQUENCES: usize = 8;

/// Rows of each: a token of plain decoding, and a root with trees of two, four and eight nodes.
const ROWS: [usize; 4] = [1, 3, 5, 9];

/// One pass for [`SEQUENCES`] sequences.
#[derive(Serialize)]
pub(super) struct Together {
    sequences: usize,
    /// Of each sequence.
    pub(super) rows: usize,
    /// How often it was measured.
    turns: usize,
    /// Median time of the pass.
    pub(super) ms: f64,
    /// Median time of a pass for each sequence, one after the other.
    pub(super) alone_ms: f64,
    /// What sharing leaves of that.
    pub(super) to_alone: f64,
}

/// Measures all numbers of rows, both ways in turns. Sequences may share the keys and values of their context: large models
/// take long to compute them.
pub(super) fn measure(decoder: &Decoder, work: &mut Workspace, share: bool) -> Result<Vec<Together>, ModelError> {
    let mut caches = match share {
        true => sharing_caches(decoder, work, SEQUENCES)?,
        false => (0..SEQUENCES).map(|_| cache(decoder, work)).collect::<Result<Vec<_>, _>>()?,
    };
    let mut times = ROWS.map(|rows| (tree(decoder, rows), Vec::new(), Vec::new()));
    let mut turns = Turns::begin();
    while turns.another() {
        for (rows, together, alone) in &mut times {
            together.push(pass(decoder, work, &mut caches, rows)?);
            let passes = caches.chunks_mut(1).map(|one| pass(decoder, work, one, rows));
            alone.push(passes.sum::<Result<f64, _>>()?);
        }
    }
    Ok(times.map(|(rows, together, alone)| summed_up(rows.len(), together, alone)).into())
}

fn summed_up(rows: usize, together: Vec<f64>, alone: Vec<f64>) -> Together {
    let turns = together.len();
    let [ms, alone_ms] = [together, alone].map(|times| median(times).unwrap_or(f64::NAN));
    Together { sequences: SEQUENCES, rows, turns, ms, alone_ms, to_alone: ms / alone_ms }
}

/// Runs the same rows for all sequences in one pass, forgets them, and gives the milliseconds that the pass took.
fn pass(decoder: &Decoder, work: &mut Workspace, caches: &mut [KvCache], rows: &[Row]) -> Result<f64, ModelError> {
    let begun = Instant::now();
    let segment = |cache| Segment { cache, rows, logits: Logits::All };
    let mut segments: Vec<Segment<'_>> = caches.iter_mut().map(segment).collect();
    decoder.forward(work, &mut segments, Depth::default())?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    caches.iter_mut().try_for_each(|cache| cache.keep_path(&[]))?;
    Ok(took)
}
