//! What is done with a checkpoint, wherever it came from.

use std::path::Path;

use crate::target::refused;
use espalier_model::{
    Asked, Checkpoint, Decoder, LoadOptions, Logits, RawModel, Result, Row, Segment, Workspace, fingerprint,
};

/// The most memory of a model that is a few kilobytes on disk: its context may be long, and its layers many.
pub(crate) const MEMORY_MAX: usize = 64 << 20;

/// Opens a checkpoint, loads it in both ways and runs a token, as far as nothing is refused.
pub(crate) fn run_all(path: &Path) -> bool {
    let tried = [describe(path), load(path)];
    tried.iter().all(|outcome| outcome.as_ref().map_or_else(|refusal| refused(refusal), |()| true))
}

fn describe(path: &Path) -> Result<()> {
    fingerprint(path)?;
    Checkpoint::describe(path).map(drop)
}

fn load(path: &Path) -> Result<()> {
    let checkpoint = Checkpoint::open(path)?;
    let weights = checkpoint.weights()?;
    weights.kinds();
    let raw = RawModel::load(&checkpoint.config, &weights, None)?;
    raw.embedding.to_tensor()?;
    run(&Decoder::load(&checkpoint, &LoadOptions::default())?)
}

/// The first token of a text.
pub(crate) fn run(decoder: &Decoder) -> Result<()> {
    let (mut work, mut cache) = (Workspace::new(1), decoder.new_cache());
    let rows = Row::chain(&[0], 0);
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::All }];
    let output = decoder.forward(&mut work, &mut segments, Asked::default())?;
    assert_eq!(output.logits(0, 0).len(), decoder.config().vocab, "a row of logits is as wide as the vocabulary");
    Ok(())
}
