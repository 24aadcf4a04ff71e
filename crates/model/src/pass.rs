//! A forward pass: what is done with the residual stream of its rows, wherever that is computed.

use espalier_speculation::{Best, GumbelMax, LogitsError, Token};

use crate::error::Result;
use crate::placed::Placed;
use crate::rows::BestOf;

/// A pass at work. Its rows are the residual stream (rows, hidden); what follows is done to all of them.
pub(crate) trait Pass {
    /// Makes the embeddings of tokens the stream.
    fn embed(&mut self, tokens: &[u32]) -> Result<()>;

    /// Makes states (rows, hidden) the stream.
    fn load(&mut self, states: &[f32]) -> Result<()>;

    /// Leaves these rows, rising, in the stream.
    fn keep(&mut self, rows: &[usize]) -> Result<()>;

    /// Says where the rows stand, before the first layer that they run through.
    fn place(&mut self, placed: &[Placed]) -> Result<()>;

    /// Runs a layer, counted from 0.
    fn layer(&mut self, index: usize, placed: &[Placed]) -> Result<()>;

    /// Runs as much of a layer as other rows can see.
    fn keys_and_values(&mut self, index: usize, keys: Keys, placed: &[Placed]) -> Result<()>;

    /// Keeps the stream as it is now, as a result.
    fn tap(&mut self, tap: usize) -> Result<()>;

    /// The stream (rows, hidden).
    fn states(&mut self) -> Result<&[f32]>;

    /// What the stream says.
    fn answer(&mut self, answers: &[Answer]) -> Result<()>;

    /// What the pass leaves behind.
    fn results(&mut self) -> &mut Results;

    /// Waits until all that was asked for has been done, keys and values stored among it.
    ///
    /// # Errors
    /// Some of it could not be done.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// What is wanted of a row of the stream.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    /// Where it goes among the results.
    pub(crate) place: usize,
    /// The best tokens, if these are enough, else all logits.
    pub(crate) best: Option<BestOf>,
    /// The noise under which the best is wanted.
    pub(crate) noise: Option<NoiseAt>,
}

/// The noise of a position.
#[derive(Clone, Copy)]
pub(crate) struct NoiseAt {
    pub(crate) rule: GumbelMax,
    pub(crate) position: u64,
}

/// Whose keys and values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Those of tokens, or of what stands in their place.
    OfTokens,
    /// Those of hidden states, beside those of tokens where the layer has both.
    OfStates,
}

/// What is told in place of a row's logits.
#[derive(Clone)]
pub(crate) enum Told {
    /// The greatest of them.
    Best(Best),
    /// The best token under noise.
    Winner(Token),
}

/// What a pass leaves behind.
#[derive(Default)]
pub(crate) struct Results {
    /// (rows that want some, vocab); those of which the best were told alone mean nothing.
    pub(crate) logits: Vec<f32>,
    /// Of each row that wants logits, its best, if they were told alone.
    pub(crate) best: Vec<Option<std::result::Result<Told, LogitsError>>>,
    /// Of each tap (rows, hidden); there may be more than the last pass had.
    pub(crate) taps: Vec<Vec<f32>>,
}

impl Results {
    /// Makes room for the logits of `answers` rows, and for taps.
    pub(crate) fn make_room(&mut self, answers: usize, vocab: usize, taps: usize) {
        sized(&mut self.logits, answers * vocab);
        self.best.clear();
        self.best.resize(answers, None);
        self.taps.resize_with(taps.max(self.taps.len()), Vec::new);
    }
}

/// Makes `buffer` hold `len` elements; what they are does not matter.
pub(crate) fn sized(buffer: &mut Vec<f32>, len: usize) {
    buffer.resize(len, 0.0);
}
