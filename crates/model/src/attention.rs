//! Tree attention: every row sees the committed positions, its ancestors in the tail, and itself.
//!
//! Most positions lie in the slots of the same number and are seen by all rows: these are *shared*. What follows them is
//! each row's own path. Where hidden states stand beside the tokens of committed positions, all rows see them too: one
//! softmax is over both, the states first.
//!
//! A task handles one key/value head for a few rows of one sequence. Scores against all slots come from the product
//! kernel; each row then picks those of its own path, in the order of positions, and the weighted sum of values walks
//! positions in the same order. A row's result therefore depends on its path alone: not on what else is in the tail,
//! how the rows were batched, or where in the tail its ancestors lie.

use std::cell::RefCell;
use std::ops::Range;

use crate::kernels::{Kernels, LANES, Product};
use crate::kv_cache::{BLOCK, Beside, LayerCache, Run};

/// Queries that share one pass over the keys: the product kernel's best height.
const QUERIES: usize = 12;

/// Sizes of one attention layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionShape {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Key `j` is visible to query `i` only if `j + window > i`.
    pub(crate) window: Option<usize>,
}

impl AttentionShape {
    /// Query heads that share a key/value head.
    pub(crate) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Rows that one task handles.
    pub(crate) fn rows_per_task(&self) -> usize {
        (QUERIES / self.group()).max(1)
    }
}

/// One sequence in a layer: what it has cached, and where its new rows stand.
pub(crate) struct Context<'a> {
    pub(crate) cache: &'a LayerCache,
    /// What stands beside the shared positions, if anything does.
    pub(crate) beside: Option<&'a Beside>,
    /// Positions before this one lie in the slots of the same number, and all rows see them.
    pub(crate) shared: usize,
    /// One more than the last slot that any row sees.
    pub(crate) slots: usize,
    /// For each row the slots of its path from the shared positions on, itself last.
    pub(crate) paths: &'a [Vec<Run>],
}

/// What one task computes: rows of the sequence, for one key/value head.
pub(crate) struct Task<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) kv_head: usize,
    /// First row, among the sequence's new rows.
    pub(crate) first_row: usize,
    /// Queries (rows, heads * head_dim with the given stride), rotated and scaled.
    pub(crate) queries: &'a [&'a [f32]],
}

thread_local! {
    /// Queries, scores and sums of the task at hand; kept between tasks to save the allocation.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[derive(Default)]
struct Scratch {
    queries: Vec<f32>,
    scores: Vec<f32>,
    sums: Vec<f32>,
}

/// Clears `buffer` and makes it `len` zeros.
fn zeros(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    buffer.clear();
    buffer.resize(len, 0.0);
    buffer
}

impl Task<'_> {
    /// Runs the task; `emit(row among those of the task, head, values)` takes each head's result.
    pub(crate) fn run(&self, kernels: &Kernels, shape: &AttentionShape, mut emit: impl FnMut(usize, usize, &[f32])) {
        SCRATCH.with_borrow_mut(|scratch| {
            let tokens_at = self.context.beside.map_or(0, |beside| beside.positions.next_multiple_of(BLOCK));
            let stride = tokens_at + self.context.slots.next_multiple_of(BLOCK);
            let value_stride = shape.head_dim.next_multiple_of(LANES);
            let heads = Heads { task: self, kernels, shape, tokens_at, stride, value_stride };
            let queries = heads.gather(&mut scratch.queries);
            let scores = zeros(&mut scratch.scores, heads.count() * heads.stride);
            let sums = zeros(&mut scratch.sums, heads.count() * value_stride);
            heads.score(queries, scores);
            heads.weigh(scores);
            heads.sum_shared(scores, sums);
            heads.sum_paths(&scores[tokens_at..], sums);
            for (q, sum) in sums.chunks_exact(value_stride).enumerate() {
                let (row, head) = (q / shape.group(), self.kv_head * shape.group() + q % shape.group());
                emit(row, head, &sum[..shape.head_dim]);
            }
        });
    }
}

/// Slots of a cache that lie side by side.
#[derive(Clone, Copy)]
struct Slots<'a> {
    cache: &'a LayerCache,
    run: Run,
}

impl<'a> Slots<'a> {
    /// So many slots of a cache, the first ones.
    fn first(cache: &'a LayerCache, len: usize) -> Self {
        Self { cache, run: Run { slot: 0, len } }
    }
}

/// A task at work: its queries are the rows' heads that share the key/value head, row by row.
struct Heads<'a> {
    task: &'a Task<'a>,
    kernels: &'a Kernels,
    shape: &'a AttentionShape,
    /// Where the scores of tokens begin; those of states come before.
    tokens_at: usize,
    /// Elements between the scores of two queries.
    stride: usize,
    /// Elements between the values of two slots, and between the sums of two queries.
    value_stride: usize,
}

impl Heads<'_> {
    fn rows(&self) -> usize {
        self.task.queries.len()
    }

    fn count(&self) -> usize {
        self.rows() * self.shape.group()
    }

    /// The paths of the task's rows.
    fn paths(&self) -> &[Vec<Run>] {
        &self.task.context.paths[self.task.first_row..][..self.rows()]
    }

    /// The first position that the row with path `path` sees.
    fn first_seen(&self, path: &[Run]) -> usize {
        let position = self.task.context.shared + path.iter().map(|run| run.len).sum::<usize>() - 1;
        self.shape.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// The first position that any row sees, rounded down to a block.
    fn first_block(&self) -> usize {
        self.paths().iter().map(|path| self.first_seen(path)).min().unwrap_or(0) / BLOCK
    }

    /// Queries side by side: (count, head_dim).
    fn gather<'b>(&self, buffer: &'b mut Vec<f32>) -> &'b [f32] {
        let width = self.shape.group() * self.shape.head_dim;
        buffer.clear();
        for row in self.task.queries {
            buffer.extend_from_slice(&row[self.task.kv_head * width..][..width]);
        }
        buffer
    }

    /// `scores` (count, stride): each query against the key of each state and of each slot.
    fn score(&self, queries: &[f32], scores: &mut [f32]) {
        let context = self.task.context;
        if let Some(Beside { cache, positions }) = context.beside {
            self.score_slots(Slots::first(cache, *positions), queries, scores);
        }
        self.score_slots(Slots::first(context.cache, context.slots), queries, &mut scores[self.tokens_at..]);
    }

    /// The scores of the first slots of a cache, with the stride of all scores.
    fn score_slots(&self, slots: Slots<'_>, queries: &[f32], scores: &mut [f32]) {
        for block in self.first_block()..slots.run.len.div_ceil(BLOCK) {
            let filled = (slots.run.len - block * BLOCK).min(BLOCK);
            assert!(scores.len() >= (self.count() - 1) * self.stride + (block + 1) * BLOCK);
            // SAFETY: (head_dim, BLOCK) keys, `count` queries of head_dim, score rows of `stride` slots; whole vectors
            // of a partly filled block stay inside it.
            unsafe {
                self.kernels.product_f32(Product {
                    x: queries.as_ptr(),
                    x_stride: self.shape.head_dim,
                    rows: self.count(),
                    w: slots.cache.keys(self.task.kv_head, block),
                    w_stride: BLOCK,
                    pair_stride: 2 * LANES,
                    depth: self.shape.head_dim,
                    vectors: filled.div_ceil(LANES),
                    acc: scores.as_mut_ptr().add(block * BLOCK),
                    acc_stride: self.stride,
                });
            }
        }
    }

    /// How many states stand beside tokens, and where their weights begin: they end where those of tokens begin.
    fn beside(&self) -> (usize, usize) {
        let states = self.task.context.beside.map_or(0, |beside| beside.positions);
        (states, self.tokens_at - states)
    }

    /// Turns each query's scores into weights that sum to one, indexed by *position*: unseen positions weigh nothing,
    /// and the scores of the row's own path follow the shared ones.
    fn weigh(&self, scores: &mut [f32]) {
        let (shared, group) = (self.task.context.shared, self.shape.group());
        for (q, scores) in scores.chunks_exact_mut(self.stride).enumerate() {
            let path = &self.paths()[q / group];
            let (states, tokens) = scores.split_at_mut(self.tokens_at);
            let mut end = shared;
            for run in path {
                // Slots of a path rise and start at `shared` or later, so `run.slot >= end`.
                tokens.copy_within(run.slot..run.slot + run.len, end);
                end += run.len;
            }
            let first = self.first_seen(path);
            tokens[..first].fill(0.0);
            if states.is_empty() {
                self.soften(&mut tokens[first..end]);
            } else {
                self.weigh_with_states(scores, first..end);
            }
        }
    }

    /// The same for a query that sees these positions by their tokens, and the states beside them.
    fn weigh_with_states(&self, scores: &mut [f32], seen: Range<usize>) {
        let (states, states_at) = self.beside();
        scores.copy_within(..states, states_at);
        let unseen = seen.start.min(states);
        scores[..states_at + unseen].fill(0.0);
        // Between the two only a window leaves a gap.
        let gap = self.tokens_at..self.tokens_at + seen.start;
        scores[gap.clone()].fill(f32::NEG_INFINITY);
        self.soften(&mut scores[states_at + unseen..self.tokens_at + seen.end]);
        scores[gap].fill(0.0);
    }

    /// Turns scores into weights that sum to one.
    fn soften(&self, scores: &mut [f32]) {
        let total = self.kernels.softmax_terms(scores);
        self.kernels.scale(scores, 1.0 / total);
    }

    /// Adds the values that all rows share: those of states, then those of tokens.
    fn sum_shared(&self, weights: &[f32], sums: &mut [f32]) {
        let Context { cache, beside, shared, .. } = *self.task.context;
        if let Some(Beside { cache, positions }) = beside {
            self.sum_first(&weights[self.beside().1..], Slots::first(cache, *positions), sums);
        }
        self.sum_first(&weights[self.tokens_at..], Slots::first(cache, shared), sums);
    }

    /// Adds the values of the first slots of a cache.
    fn sum_first(&self, weights: &[f32], slots: Slots<'_>, sums: &mut [f32]) {
        for block in self.first_block()..slots.run.len.div_ceil(BLOCK) {
            let from = block * BLOCK;
            let run = Run { slot: from, len: (slots.run.len - from).min(BLOCK) };
            self.sum_run(&weights[from..], Slots { run, ..slots }, sums, self.count());
        }
    }

    /// Adds the values of each row's own path.
    fn sum_paths(&self, weights: &[f32], sums: &mut [f32]) {
        let group = self.shape.group();
        for (row, path) in self.paths().iter().enumerate() {
            let (weights, first) = (&weights[row * group * self.stride..], self.first_seen(path));
            let sums = &mut sums[row * group * self.value_stride..];
            let mut position = self.task.context.shared;
            for part in path.iter().flat_map(|&run| within_blocks(run)) {
                let unseen = first.saturating_sub(position).min(part.len);
                let run = Run { slot: part.slot + unseen, len: part.len - unseen };
                let slots = Slots { cache: self.task.context.cache, run };
                self.sum_run(&weights[position + unseen..], slots, sums, group);
                position += part.len;
            }
        }
    }

    /// `sums` (queries, value_stride) += weights (queries, with the scores' stride) of slots of one block times their
    /// values.
    fn sum_run(&self, weights: &[f32], Slots { cache, run }: Slots<'_>, sums: &mut [f32], queries: usize) {
        let value_stride = self.value_stride;
        if run.len == 0 {
            return;
        }
        assert!(weights.len() >= (queries - 1) * self.stride + run.len && sums.len() >= queries * value_stride);
        // SAFETY: the run lies inside one block; lengths are checked above.
        unsafe {
            self.kernels.product_f32(Product {
                x: weights.as_ptr(),
                x_stride: self.stride,
                rows: queries,
                w: cache.values(self.task.kv_head, run.slot),
                w_stride: value_stride,
                pair_stride: 2 * LANES,
                depth: run.len,
                vectors: value_stride / LANES,
                acc: sums.as_mut_ptr(),
                acc_stride: value_stride,
            });
        }
    }
}

/// The parts of a run that lie in one block each.
fn within_blocks(run: Run) -> impl Iterator<Item = Run> {
    let end = run.slot + run.len;
    std::iter::successors(Some(run.slot), |slot| Some((slot / BLOCK + 1) * BLOCK))
        .take_while(move |&slot| slot < end)
        .map(move |slot| Run { slot, len: end.min((slot / BLOCK + 1) * BLOCK) - slot })
}
