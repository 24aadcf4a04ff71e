//! What is done with a checkpoint, wherever it came from.

use std::path::Path;

use espalier_model::{
    Asked, Checkpoint, Decoder, GgufExport, LoadOptions, Logits, ModelConfig, RawModel, Result, Row, Segment,
    Workspace, fingerprint,
};

use crate::folder::{File, Folder};
use crate::target::refused;

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

/// Makes a GGUF file of a checkpoint that runs, if one can be: it describes the same model, and runs too.
pub(crate) fn check_conversion(path: &Path) {
    let checkpoint = Checkpoint::open(path).expect("it has been opened before");
    let mut bytes = Vec::new();
    if GgufExport::default().write(&checkpoint, &mut bytes, |_, _| {}).is_err() {
        return;
    }
    let folder = Folder::of(&[File { name: "model.gguf", bytes: &bytes }]);
    let converted = Checkpoint::open(folder.path()).expect("what was converted can be opened");
    // GGUF has one name for Llama and Mistral.
    let config = ModelConfig { family: converted.config.family, ..checkpoint.config };
    assert_eq!(converted.config, config, "what was converted is another model");
    load(folder.path()).expect("what was converted can be run");
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
