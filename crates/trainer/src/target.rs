//! The frozen target: what it computes for a batch, and what names it.

use std::ops::Range;
use std::path::Path;

use espalier_model::{
    Asked, Checkpoint, Decoder, KvCache, LoadOptions, Logits, Output, Row, Segment, States, TargetCard, Workspace,
    fingerprint,
};
use espalier_text::Tokenizer;
use parking_lot::Mutex;

use crate::data::{Batch, Span};
use crate::error::{Result, TrainError};
use crate::place::Place;

/// Rows of one forward pass: enough to be busy with, few enough to stay in the caches. A text is never divided.
const TARGET_PASS_ROWS: usize = 1024;

/// A target that runs as it is served, without gradients.
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
    pub(crate) fn load(checkpoint: &Checkpoint, layers: Option<usize>, place: &Place) -> Result<Self> {
        let options = LoadOptions { layers, ..place.load_options(&checkpoint.weights()?) };
        Ok(Self::of(Decoder::load(checkpoint, &options)?))
    }

    /// A model that is loaded already.
    pub(crate) fn of(decoder: Decoder) -> Self {
        Self { decoder, idle: Mutex::default() }
    }

    /// Runs every text of a batch: the states after layer `tapped` (from 1), and logits if they are wanted, in which case
    /// all layers are run.
    pub(crate) fn see(&self, batch: &Batch, tapped: usize, logits: Logits) -> Result<Seen> {
        let mut seen = self.nothing_seen(batch, logits);
        let mut pass = TargetPass { decoder: &self.decoder, work: self.workspace(), tapped, logits };
        for spans in passes(batch.spans()) {
            pass.run(batch, spans, &mut seen)?;
        }
        self.idle.lock().push(pass.work);
        Ok(seen)
    }

    /// Runs every text of a batch in blocks, as a drafter of one layer that reads hidden states does in its rounds: before
    /// a position's block, which begins at `starts` of its text, stand the `states` (positions, hidden) of another model.
    pub(crate) fn see_in_blocks(&self, batch: &Batch, starts: &[usize], states: &[f32]) -> Result<Seen> {
        let mut seen = self.nothing_seen(batch, Logits::All);
        let mut pass = TargetPass { decoder: &self.decoder, work: self.workspace(), tapped: 1, logits: Logits::All };
        for span in batch.spans() {
            let mut cache = self.decoder.new_cache();
            let mut first = batch.first_of(span);
            for block in starts[first..first + span.length].chunk_by(|a, b| a == b) {
                pass.block(batch, &mut cache, first..first + block.len(), &mut seen)?;
                let hidden = self.decoder.config().hidden;
                let end = first + block.len();
                let (tokens, states) = (&batch.tokens()[first..end], &states[first * hidden..end * hidden]);
                let sequence = States { cache: &mut cache, tokens, states };
                self.decoder.append_states(&mut pass.work, &mut [sequence])?;
                first = end;
            }
        }
        self.idle.lock().push(pass.work);
        Ok(seen)
    }

    /// Tokens that it knows.
    pub(crate) fn vocab(&self) -> usize {
        self.decoder.config().vocab
    }

    fn nothing_seen(&self, batch: &Batch, logits: Logits) -> Seen {
        let (positions, config) = (batch.rows() * batch.length(), self.decoder.config());
        let wanted = if logits == Logits::None { 0 } else { config.vocab };
        Seen { states: vec![0.0; positions * config.hidden], logits: vec![0.0; positions * wanted] }
    }

    fn workspace(&self) -> Workspace {
        let idle = self.idle.lock().pop();
        idle.unwrap_or_else(|| Workspace::new(1))
    }
}

/// Forward passes over some texts.
struct TargetPass<'a> {
    decoder: &'a Decoder,
    work: Workspace,
    tapped: usize,
    logits: Logits,
}

impl TargetPass<'_> {
    /// Runs the tokens of a block, which stand at these positions of the batch, and leaves them in the tail.
    fn block(&mut self, batch: &Batch, cache: &mut KvCache, positions: Range<usize>, seen: &mut Seen) -> Result<()> {
        let (first, length) = (positions.start, positions.len());
        let rows = Row::chain(&batch.tokens()[positions], 0);
        let mut segments = [Segment { cache, rows: &rows, logits: self.logits }];
        let depth = Asked { taps: &[self.tapped], ..Asked::default() };
        let output = self.decoder.forward(&mut self.work, &mut segments, depth)?;
        copy(&mut seen.states, first, length, |row| output.tap(0, 0, row));
        copy(&mut seen.logits, first, length, |row| Output::logits(&output, 0, row));
        Ok(())
    }

    fn run(&mut self, batch: &Batch, spans: &[Span], seen: &mut Seen) -> Result<()> {
        let (tapped, logits) = (self.tapped, self.logits);
        let tokens = |span: &Span| &batch.tokens()[batch.first_of(span)..][..span.length];
        let rows: Vec<Vec<Row>> = spans.iter().map(|span| Row::chain(tokens(span), 0)).collect();
        let mut caches: Vec<_> = spans.iter().map(|_| self.decoder.new_cache()).collect();
        let segments = caches.iter_mut().zip(&rows);
        let mut segments: Vec<Segment<'_>> = segments.map(|(cache, rows)| Segment { cache, rows, logits }).collect();
        let exit_after = (logits == Logits::None).then_some(tapped);
        let output = self.decoder.forward(
            &mut self.work,
            &mut segments,
            Asked { exit_after, taps: &[tapped], ..Asked::default() },
        )?;
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

/// Copies `rows` rows to their positions from row `first` on.
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
            rows <= TARGET_PASS_ROWS
        };
        // The first span always goes, however long it is.
        let taken = left.iter().take_while(fits).count().max(1).min(left.len());
        let pass = left.split_off(..taken)?;
        (!pass.is_empty()).then_some(pass)
    })
}

/// The card of a checkpoint, whose weights are read for it.
pub(crate) fn card(checkpoint: &Checkpoint) -> Result<TargetCard> {
    Ok(TargetCard {
        name: checkpoint.name().to_owned(),
        fingerprint: fingerprint(&checkpoint.path)?,
        tokenizer: Tokenizer::open(&checkpoint.path)?.fingerprint().to_owned(),
        layers: checkpoint.config.layers,
        hidden_size: checkpoint.config.hidden,
    })
}

/// Refuses the model in `folder` if it speaks of other tokens than the one in `like`.
pub(crate) fn check_tokenizer(folder: &Path, like: &Path) -> Result<()> {
    let of = |folder| Ok::<_, TrainError>(Tokenizer::open(folder)?.fingerprint().to_owned());
    let (found, expected) = (of(folder)?, of(like)?);
    if found == expected {
        return Ok(());
    }
    Err(TrainError::Tokenizer { who: folder.display().to_string(), found, expected })
}

/// What a model card says of the target.
pub(crate) fn about(card: &TargetCard) -> Vec<(String, String)> {
    let lines = [("target", &card.name), ("target's fingerprint", &card.fingerprint)];
    lines.map(|(key, value)| (key.to_owned(), value.clone())).to_vec()
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
