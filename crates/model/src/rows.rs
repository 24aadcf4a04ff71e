//! What a forward pass is asked to run.

use espalier_speculation::GumbelMax;

use crate::kv_cache::KvCache;

/// Most rows of one forward pass over all segments.
pub const ROWS_MAX: usize = 4096;

/// A row to run: a token and the tail row it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The token.
    pub token: u32,
    /// An earlier row of the cache's tail; none for a child of the last committed token.
    pub parent: Option<usize>,
}

impl Row {
    /// Rows of a chain that begins right after the cache's committed tokens and its `tail` rows (a chain itself).
    pub fn chain(tokens: &[u32], tail: usize) -> Vec<Self> {
        tokens.iter().enumerate().map(|(i, &token)| Self { token, parent: (tail + i).checked_sub(1) }).collect()
    }
}

/// Which rows of a segment want logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logits {
    /// None: a prefill.
    None,
    /// So many rows, the last ones: where a text goes on, or a tree below it.
    Last(usize),
    /// Every row.
    All,
}

impl Logits {
    /// How many of `rows` rows, the last ones, want logits.
    pub(crate) fn wanted(self, rows: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Last(count) => count.min(rows),
            Self::All => rows,
        }
    }
}

/// Rows of one sequence.
pub struct Segment<'a> {
    /// Its cache; the rows are appended to the tail.
    pub cache: &'a mut KvCache,
    /// The rows, parents first.
    pub rows: &'a [Row],
    /// Which of them want logits.
    pub logits: Logits,
}

impl Segment<'_> {
    /// How many rows, the last ones, want logits.
    pub(crate) fn wanted(&self) -> usize {
        self.logits.wanted(self.rows.len())
    }
}

/// Of a row's logits the best are enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestOf {
    /// So many of them, at least one; under noise the best alone is told.
    pub count: usize,
    /// Among the first tokens, so many of the vocabulary.
    pub vocab: usize,
    /// The rule by which one is the best of a row, at the position after the row's own; without it that is the greatest
    /// logit. Only our kernels for GPUs follow it: other devices tell all logits then.
    pub noise: Option<GumbelMax>,
}

/// How deep to run, and what to hand out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Leave after this many layers, through the final norm and the head; all layers when none.
    pub exit_after: Option<usize>,
    /// Layers (counted from 1) after which the residual stream is recorded for every row.
    pub taps: &'a [usize],
    /// Of each segment, if the best tokens of its rows are enough: a device tells these alone then, the processor all logits
    /// still. All logits are wanted of segments after the last that is named here.
    pub best: &'a [Option<BestOf>],
}
