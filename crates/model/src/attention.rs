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

mod bf16;
mod bytes;
mod floats;
mod products;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Range;

use crate::kernels::{Kernels, LANES};
use crate::kv_cache::{BLOCK, Beside, KvFormat, LayerCache, Run};
use bf16::{Bf16Buffers, Bf16Products};
use bytes::{ByteBuffers, ByteProducts};
use floats::{FloatBuffers, FloatProducts};
use products::{Located, Products, Summed, Weights};

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

    /// Rows that one task handles where keys and values are kept like this.
    pub(crate) fn rows_per_task(&self, format: KvFormat) -> usize {
        let queries = match format {
            KvFormat::Floats => FloatProducts::QUERIES,
            KvFormat::Bf16(_) => Bf16Products::QUERIES,
            KvFormat::Bytes => ByteProducts::QUERIES,
        };
        (queries / self.group()).max(1)
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
    /// Of each row the queries that share the head (group * head_dim), rotated and scaled.
    pub(crate) queries: &'a [&'a [f32]],
}

thread_local! {
    /// What the task at hand works on; kept between tasks to save the allocation.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[derive(Default)]
struct Scratch {
    gathered: Vec<f32>,
    scores: Vectors,
    totals: Vec<f32>,
    sums: Vectors,
    located: Vec<Located>,
    floats: FloatBuffers,
    bf16: Bf16Buffers,
    bytes: ByteBuffers,
}

/// Numbers whose rows begin with a cache line, if they are whole vectors long: no row of a tile is stored into two lines
/// then.
#[derive(Default)]
struct Vectors(Vec<Vector>);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Vector([f32; LANES]);

impl Vectors {
    /// Makes them `len` zeros, a whole number of vectors.
    fn zeros(&mut self, len: usize) -> &mut [f32] {
        self.0.clear();
        self.0.resize(len.div_ceil(LANES), Vector([0.0; LANES]));
        self.as_mut_slice()
    }

    fn as_mut_slice(&mut self) -> &mut [f32] {
        // SAFETY: vectors are numbers side by side.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * LANES) }
    }
}

impl Task<'_> {
    /// Runs the task; `emit` takes what the heads of its rows see: (rows, heads that share the key/value head, head_dim).
    pub(crate) fn run(&self, kernels: &Kernels, shape: &AttentionShape, emit: impl FnOnce(&[f32])) {
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { gathered, scores, totals, sums, located, floats, bf16, bytes } = scratch;
            let heads = Heads::new(self, kernels, shape);
            let buffers = &mut Buffers { gathered, scores, totals, sums, located };
            match self.context.cache.format() {
                KvFormat::Floats => heads.attend(FloatProducts { kernels, buffers: floats }, buffers, emit),
                KvFormat::Bf16(order) => {
                    heads.attend(Bf16Products { kernels: kernels.bf16(order), buffers: bf16 }, buffers, emit);
                }
                KvFormat::Bytes => heads.attend(ByteProducts { kernels, buffers: bytes }, buffers, emit),
            }
        });
    }
}

/// Queries side by side, their scores or weights, the sums of these, those of values, and where a row's positions lie.
struct Buffers<'a> {
    gathered: &'a mut Vec<f32>,
    scores: &'a mut Vectors,
    totals: &'a mut Vec<f32>,
    sums: &'a mut Vectors,
    located: &'a mut Vec<Located>,
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
}

impl<'a> Heads<'a> {
    fn new(task: &'a Task<'a>, kernels: &'a Kernels, shape: &'a AttentionShape) -> Self {
        let tokens_at = task.context.beside.map_or(0, |beside| beside.positions.next_multiple_of(BLOCK));
        let stride = tokens_at + task.context.slots.next_multiple_of(BLOCK);
        Self { task, kernels, shape, tokens_at, stride }
    }

    /// All of it, by products with keys and values as they are kept.
    fn attend<P: Products>(&self, mut products: P, buffers: &mut Buffers<'_>, emit: impl FnOnce(&[f32])) {
        let (dim, sum_stride) = (self.shape.head_dim, P::sum_stride(self.shape.head_dim));
        products.take(self.gather(buffers.gathered), dim);
        buffers.sums.zeros(self.count() * sum_stride);
        let scores = buffers.scores.zeros(self.count() * self.stride);
        self.score(&products, scores);
        self.weigh(scores, buffers.totals);
        self.sum(&mut products, buffers);
        let sums = buffers.sums.as_mut_slice();
        for (q, total) in buffers.totals.iter().enumerate() {
            let sum = q * sum_stride..q * sum_stride + dim;
            self.kernels.scale(&mut sums[sum.clone()], 1.0 / total);
            if sum_stride > dim {
                sums.copy_within(sum, q * dim);
            }
        }
        emit(&sums[..self.count() * dim]);
    }

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

    /// One more than the position of the row with path `path`.
    fn end(&self, path: &[Run]) -> usize {
        self.task.context.shared + path.iter().map(|run| run.len).sum::<usize>()
    }

    /// The first position that the row with path `path` sees.
    fn first_seen(&self, path: &[Run]) -> usize {
        self.shape.window.map_or(0, |window| self.end(path).saturating_sub(window))
    }

    /// The first position that any row sees, rounded down to a block.
    fn first_block(&self) -> usize {
        self.paths().iter().map(|path| self.first_seen(path)).min().unwrap_or(0) / BLOCK
    }

    /// Queries side by side: (count, head_dim).
    fn gather<'b>(&self, buffer: &'b mut Vec<f32>) -> &'b [f32] {
        buffer.clear();
        self.task.queries.iter().for_each(|row| buffer.extend_from_slice(row));
        buffer
    }

    /// `scores` (count, stride): each query against the key of each state and of each slot.
    fn score<P: Products>(&self, products: &P, scores: &mut [f32]) {
        let context = self.task.context;
        if let Some(Beside { cache, positions }) = context.beside {
            self.score_slots(products, cache, *positions, scores);
        }
        self.score_slots(products, context.cache, context.slots, &mut scores[self.tokens_at..]);
    }

    /// The scores of the first slots of a cache, with the stride of all scores.
    fn score_slots<P: Products>(&self, products: &P, cache: &LayerCache, slots: usize, scores: &mut [f32]) {
        for block in self.first_block()..slots.div_ceil(BLOCK) {
            let filled = (slots - block * BLOCK).min(BLOCK);
            let scores = &mut scores[block * BLOCK..];
            assert!(scores.len() >= (self.count() - 1) * self.stride + BLOCK, "a block of scores for each query");
            // SAFETY: rows of `stride` scores, a block of which is there for each query.
            unsafe {
                let head = cache.head(self.task.kv_head, block);
                products.score(head, filled, scores.as_mut_ptr(), self.stride);
            }
        }
    }

    /// How many states stand beside tokens, and where their weights begin: they end where those of tokens begin.
    fn beside(&self) -> (usize, usize) {
        let states = self.task.context.beside.map_or(0, |beside| beside.positions);
        (states, self.tokens_at - states)
    }

    /// Turns each query's scores into weights, the greatest being one, indexed by *position*: unseen positions weigh
    /// nothing, and the scores of the row's own path follow the shared ones. `totals` (count) are the sums of weights.
    fn weigh(&self, scores: &mut [f32], totals: &mut Vec<f32>) {
        totals.clear();
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
            totals.push(if states.is_empty() {
                self.kernels.softmax_terms(&mut tokens[first..end])
            } else {
                self.weigh_with_states(scores, first..end)
            });
        }
    }

    /// The same for a query that sees these positions by their tokens, and the states beside them.
    fn weigh_with_states(&self, scores: &mut [f32], seen: Range<usize>) -> f32 {
        let (states, states_at) = self.beside();
        scores.copy_within(..states, states_at);
        let unseen = seen.start.min(states);
        scores[..states_at + unseen].fill(0.0);
        // Between the two only a window leaves a gap.
        let gap = self.tokens_at..self.tokens_at + seen.start;
        scores[gap.clone()].fill(f32::NEG_INFINITY);
        let total = self.kernels.softmax_terms(&mut scores[states_at + unseen..self.tokens_at + seen.end]);
        scores[gap].fill(0.0);
        total
    }

    /// Adds up values: those of states, then those of tokens; first those that all rows see in the same slots.
    fn sum<P: Products>(&self, products: &mut P, buffers: &mut Buffers<'_>) {
        let Context { cache, beside, .. } = *self.task.context;
        let (group, from) = (self.shape.group(), self.first_block() * BLOCK);
        let Buffers { scores, sums, located, .. } = buffers;
        let (weights, sums) = (scores.as_mut_slice(), sums.as_mut_slice());
        let sum_stride = P::sum_stride(self.shape.head_dim);
        let mut add =
            |cache, weights_at: usize, located: &[Located], positions: Range<usize>, queries: Range<usize>| {
                let elements = &weights[queries.start * self.stride + weights_at..];
                let weights = Weights { elements, stride: self.stride, queries: queries.len() };
                let (kv_head, head_dim) = (self.task.kv_head, self.shape.head_dim);
                let summed = Summed { cache, kv_head, head_dim, located, positions };
                products.add(&summed, weights, &mut sums[queries.start * sum_stride..]);
            };
        let all = 0..self.count();
        if let Some(Beside { cache, positions }) = beside {
            add(cache, self.beside().1, &[Located::in_place(*positions)], from..*positions, all.clone());
        }
        let common = self.common() / P::POSITIONS * P::POSITIONS;
        add(cache, self.tokens_at, &[Located::in_place(common)], from..common, all);
        for (row, path) in self.paths().iter().enumerate() {
            self.locate(path, located);
            let positions = from.max(common)..self.end(path);
            add(cache, self.tokens_at, located, positions, row * group..(row + 1) * group);
        }
    }

    /// Where the positions of a path lie.
    fn locate(&self, path: &[Run], located: &mut Vec<Located>) {
        let mut position = self.task.context.shared;
        located.clear();
        located.push(Located::in_place(position));
        for &run in path {
            located.push(Located { position, run });
            position += run.len;
        }
    }

    /// So many positions, the first ones, lie in the slots of the same number for all rows.
    fn common(&self) -> usize {
        let shared = self.task.context.shared;
        let beyond = |path: &Vec<Run>| path.first().filter(|run| run.slot == shared).map_or(0, |run| run.len);
        shared + self.paths().iter().map(beyond).min().unwrap_or(0)
    }
}
