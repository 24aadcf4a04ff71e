//! The frozen target: what it computes for a batch, and what names it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use espalier_model::{Checkpoint, Decoder, Depth, LoadOptions, Logits, Output, Row, Segment, Workspace};
use espalier_text::Tokenizer;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::data::{Batch, Span};
use crate::error::{Result, TrainError};

/// Rows of one forward pass: enough to be busy with, few enough to stay in the caches. A text is never divided.
const PASS_ROWS: usize = 1024;

/// A target that runs as it is served, on the CPU, without gradients.
pub(crate) struct Target {
    decoder: Decoder,
    /// Of one thread each: batches are computed side by side, not faster one by one.
    idle: Mutex<Vec<Workspace>>,
}

/// What the target computed for every position of a batch; zeros where there is no text.
pub(crate) struct Seen {
    /// (positions, hidden): the residual stream after the tapped layer.
    pub(crate) states: Vec<f32>,
    /// (positions, vocab); empty if not asked for.
    pub(crate) logits: Vec<f32>,
}

impl Target {
    /// Loads a target, or its first layers.
    pub(crate) fn load(checkpoint: &Checkpoint, layers: Option<usize>) -> Result<Self> {
        let options = LoadOptions { layers, ..LoadOptions::default() };
        Ok(Self { decoder: Decoder::load(checkpoint, &options)?, idle: Mutex::default() })
    }

    /// Runs every text of a batch: the states after layer `tapped` (from 1), and logits if they are wanted, in which case
    /// all layers are run.
    pub(crate) fn see(&self, batch: &Batch, tapped: usize, logits: Logits) -> Result<Seen> {
        let (positions, config) = (batch.rows() * batch.length(), self.decoder.config());
        let wanted = if logits == Logits::None { 0 } else { config.vocab };
        let mut seen = Seen { states: vec![0.0; positions * config.hidden], logits: vec![0.0; positions * wanted] };
        let idle = self.idle().pop();
        let mut pass = Pass { decoder: &self.decoder, work: idle.unwrap_or_else(|| Workspace::new(1)), tapped, logits };
        for spans in passes(batch.spans()) {
            pass.run(batch, spans, &mut seen)?;
        }
        self.idle().push(pass.work);
        Ok(seen)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Workspace>> {
        // Whoever panicked held a workspace, not the list of them.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forward passes over some texts.
struct Pass<'a> {
    decoder: &'a Decoder,
    work: Workspace,
    tapped: usize,
    logits: Logits,
}

impl Pass<'_> {
    fn run(&mut self, batch: &Batch, spans: &[Span], seen: &mut Seen) -> Result<()> {
        let (tapped, logits) = (self.tapped, self.logits);
        let tokens = |span: &Span| &batch.tokens()[batch.first_of(span)..][..span.length];
        let rows: Vec<Vec<Row>> = spans.iter().map(|span| Row::chain(tokens(span), 0)).collect();
        let mut caches: Vec<_> = spans.iter().map(|_| self.decoder.new_cache()).collect();
        let segments = caches.iter_mut().zip(&rows);
        let mut segments: Vec<Segment<'_>> = segments.map(|(cache, rows)| Segment { cache, rows, logits }).collect();
        let exit_after = (logits == Logits::None).then_some(tapped);
        let output = self.decoder.forward(&mut self.work, &mut segments, Depth { exit_after, taps: &[tapped] })?;
        for (segment, span) in spans.iter().enumerate() {
            let first = batch.first_of(span);
            copy(&mut seen.states, first, span.length, |row| output.tap(0, segment, row));
            if logits == Logits::All {
                copy(&mut seen.logits, first, span.length, |row| Output::logits(&output, segment, row));
            }
        }
        Ok(())
    }
}

/// Copies `rows` rows to their places from row `first` on.
fn copy<'a>(to: &mut [f32], first: usize, rows: usize, from: impl Fn(usize) -> &'a [f32]) {
    for row in 0..rows {
        let values = from(row);
        to[(first + row) * values.len()..][..values.len()].copy_from_slice(values);
    }
}

/// Groups spans into forward passes.
fn passes(spans: &[Span]) -> impl Iterator<Item = &[Span]> {
    let mut left = spans;
    std::iter::from_fn(move || {
        let mut rows = 0;
        let fits = |span: &&Span| {
            rows += span.length;
            rows <= PASS_ROWS
        };
        // The first span always goes, however long it is.
        let taken = left.iter().take_while(fits).count().max(1).min(left.len());
        let pass = left.split_off(..taken)?;
        (!pass.is_empty()).then_some(pass)
    })
}

/// What names a target: a drafter that reads its hidden states is of no use to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetCard {
    /// The name of its folder, for people.
    pub name: String,
    /// SHA-256 over its configuration and weights, in hexadecimal.
    pub fingerprint: String,
    /// Its tokenizer's fingerprint.
    pub tokenizer: String,
    /// Its number of layers.
    pub layers: usize,
    /// The width of its residual stream.
    pub hidden_size: usize,
}

impl TargetCard {
    /// The card of a checkpoint, whose weights are read for it.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Result<Self> {
        Ok(Self {
            name: checkpoint.name().to_owned(),
            fingerprint: fingerprint(&checkpoint.dir)?,
            tokenizer: Tokenizer::open(&checkpoint.dir)?.fingerprint().to_owned(),
            layers: checkpoint.config.layers,
            hidden_size: checkpoint.config.hidden,
        })
    }

    /// What a model card says of the target.
    pub(crate) fn about(&self) -> Vec<(String, String)> {
        let lines = [("target", &self.name), ("target's fingerprint", &self.fingerprint)];
        lines.map(|(key, value)| (key.to_owned(), value.clone())).to_vec()
    }
}

/// The shards of a checkpoint.
#[derive(Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}

/// SHA-256, in hexadecimal, over `config.json` and the weight files of a checkpoint folder, in order of their names.
///
/// # Errors
/// Files that are missing, unreadable or, in the case of an index, malformed.
pub fn fingerprint(folder: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    for name in ["config.json".to_owned()].into_iter().chain(weight_files(folder)?) {
        update(&mut hasher, &folder.join(name))?;
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn weight_files(folder: &Path) -> Result<BTreeSet<String>> {
    const SINGLE: &str = "model.safetensors";
    if folder.join(SINGLE).is_file() {
        return Ok(BTreeSet::from([SINGLE.to_owned()]));
    }
    let path = folder.join("model.safetensors.index.json");
    let text = std::fs::read(&path).map_err(|fault| TrainError::read(&path, fault))?;
    let index: ShardIndex = serde_json::from_slice(&text).map_err(|fault| TrainError::Json { path, fault })?;
    Ok(index.weight_map.into_values().collect())
}

/// Length first, so that no two lists of files run together alike.
fn update(hasher: &mut Sha256, path: &Path) -> Result<()> {
    let unreadable = |fault| TrainError::read(path, fault);
    let mut file = File::open(path).map_err(unreadable)?;
    hasher.update(file.metadata().map_err(unreadable)?.len().to_le_bytes());
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk).map_err(unreadable)? {
            0 => return Ok(()),
            read => hasher.update(&chunk[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_full_but_never_divide_a_text() {
        let span = |length| Span { row: 0, start: 0, length };
        let lengths = [1000, 24, 1, 2000, 5];
        let spans = lengths.map(span);
        let grouped: Vec<Vec<usize>> = passes(&spans).map(|pass| pass.iter().map(|s| s.length).collect()).collect();
        assert_eq!(grouped, [vec![1000, 24], vec![1], vec![2000], vec![5]]);
        assert_eq!(passes(&[]).count(), 0);
    }
}
