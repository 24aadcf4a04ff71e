//! One forward pass over some rows.

use espalier_model::{Decoder, Depth, KvCache, Logits, ModelError, Row, Segment, Workspace};

/// Tokens before the rows.
pub(super) const CONTEXT: usize = 256;

/// Passes over each number of rows, taken in turns; medians count.
pub(super) const PASSES: usize = 41;

/// A cache that holds the context.
pub(super) fn cache(decoder: &Decoder, work: &mut Workspace) -> Result<KvCache, ModelError> {
    let mut cache = decoder.new_cache();
    pass(decoder, work, &mut cache, &Row::chain(&[7; CONTEXT], 0))?;
    cache.keep_path(&(0..CONTEXT).collect::<Vec<_>>())?;
    Ok(cache)
}

/// So many rows of a tree in which every node has two children.
pub(super) fn tree(decoder: &Decoder, rows: usize) -> Vec<Row> {
    let vocab = decoder.config().vocab;
    let row = |i: usize| Row { token: (17 * i % vocab) as u32, parent: i.checked_sub(1).map(|i| i / 2) };
    (0..rows).map(row).collect()
}

/// Runs rows after what the cache holds; they are in it until a path of them is kept.
pub(super) fn pass(
    decoder: &Decoder,
    work: &mut Workspace,
    cache: &mut KvCache,
    rows: &[Row],
) -> Result<(), ModelError> {
    let mut segments = [Segment { cache, rows, logits: Logits::All }];
    decoder.forward(work, &mut segments, Depth::default()).map(drop)
}
