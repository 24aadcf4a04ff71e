//! One forward pass over rows of many sequences.
//!
//! Every row is computed by the same operations in the same order however many share the pass, so its logits are the
//! same bits alone, in a tree, or in a batch.

use crate::activation::gated;
use crate::attention::{Context, Task};
use crate::decoder::{Biased, Decoder, Layer, Mlp, NormLayer};
use crate::disjoint::Disjoint;
use crate::error::{ModelError, Result};
use crate::kernels::Kernels;
use crate::kv_cache::{KvCache, LayerCache, Run};
use crate::linear::PANEL;
use crate::pool::Pool;

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
    /// The last row alone.
    Last,
    /// Every row.
    All,
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

/// How deep to run, and which hidden states to hand out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depth<'a> {
    /// Leave after this many layers, through the final norm and the head; all layers when none.
    pub exit_after: Option<usize>,
    /// Layers (counted from 1) after which the residual stream is recorded for every row.
    pub taps: &'a [usize],
}

/// Threads and buffers of one engine.
pub struct Workspace {
    pub(crate) pool: Pool,
    pub(crate) kernels: &'static Kernels,
    buffers: Buffers,
}

/// Row-major buffers, grown on demand and kept.
#[derive(Default)]
struct Buffers {
    /// The residual stream (rows, hidden).
    x: Vec<f32>,
    /// A normalised input (rows, hidden).
    normed: Vec<f32>,
    /// Queries, keys and values (rows, (heads + 2 kv_heads) * head_dim).
    qkv: Vec<f32>,
    /// Attention's result (rows, heads * head_dim).
    attended: Vec<f32>,
    /// The feed-forward's inner activations (rows, ffn).
    inner: Vec<f32>,
    /// cos and sin (rows, rotary_dim / 2) each.
    cos: Vec<f32>,
    sin: Vec<f32>,
    logits: Vec<f32>,
    taps: Vec<Vec<f32>>,
}

impl Workspace {
    /// A workspace of `threads` threads (at least one, the caller's) with the fastest kernels of this processor.
    pub fn new(threads: usize) -> Self {
        Self { pool: Pool::new(threads), kernels: Kernels::detect(), buffers: Buffers::default() }
    }

    /// As [`Self::new`], with the kernels of the instruction set `name` (`avx512`, `avx2`, `portable`), if this
    /// processor has it.
    pub fn with_instruction_set(threads: usize, name: &str) -> Option<Self> {
        let kernels = Kernels::available().into_iter().find(|k| k.name == name)?;
        Some(Self { kernels, ..Self::new(threads) })
    }

    /// The instruction sets of this processor, the fastest first.
    pub fn instruction_sets() -> Vec<&'static str> {
        Kernels::available().iter().map(|k| k.name).collect()
    }

    /// The instruction set in use.
    pub fn instruction_set(&self) -> &'static str {
        self.kernels.name
    }

    /// Threads in use.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

/// The result of a forward pass, borrowed from its workspace.
pub struct Output<'w> {
    vocab: usize,
    hidden: usize,
    /// First logits row and first row of each segment.
    starts: Vec<(usize, usize)>,
    logits: &'w [f32],
    taps: &'w [Vec<f32>],
}

impl Output<'_> {
    /// Logits (vocab) of the `row`-th row of `segment` that wanted some.
    pub fn logits(&self, segment: usize, row: usize) -> &[f32] {
        &self.logits[(self.starts[segment].0 + row) * self.vocab..][..self.vocab]
    }

    /// The residual stream (hidden) of `row` of `segment` after the layer that `tap` names: an index into
    /// [`Depth::taps`].
    pub fn tap(&self, tap: usize, segment: usize, row: usize) -> &[f32] {
        &self.taps[tap][(self.starts[segment].1 + row) * self.hidden..][..self.hidden]
    }
}

/// What attention needs to know of a segment, the same in all layers.
struct Placed {
    committed: usize,
    slots: usize,
    first_row: usize,
    rows: usize,
    paths: Vec<Vec<Run>>,
}

impl Decoder {
    /// Runs the rows of all segments and appends them to their caches' tails.
    ///
    /// # Errors
    /// [`ModelError`] for a token outside the vocabulary, an unknown parent, a full context, too many rows or layers.
    /// Tails may then hold rows that were not run: roll them back.
    pub fn forward<'w>(
        &self,
        work: &'w mut Workspace,
        segments: &mut [Segment<'_>],
        depth: Depth<'_>,
    ) -> Result<Output<'w>> {
        let layers = self.check(segments, depth)?;
        let Workspace { pool, kernels, buffers } = work;
        let mut pass = Pass { decoder: self, pool, kernels, buffers };
        let placed = pass.place(segments)?;
        pass.buffers.taps.resize_with(depth.taps.len().max(pass.buffers.taps.len()), Vec::new);
        for i in 0..layers {
            pass.layer(i, segments, &placed);
            for (tap, _) in depth.taps.iter().enumerate().filter(|(_, after)| **after == i + 1) {
                pass.buffers.taps[tap].clone_from(&pass.buffers.x);
            }
        }
        let starts = pass.head(segments, &placed);
        let (logits, taps) = (&buffers.logits, &buffers.taps[..depth.taps.len()]);
        Ok(Output { vocab: self.config().vocab, hidden: self.config().hidden, starts, logits, taps })
    }

    /// The number of layers to run.
    fn check(&self, segments: &[Segment<'_>], depth: Depth<'_>) -> Result<usize> {
        let rows = segments.iter().map(|s| s.rows.len()).sum();
        if rows == 0 {
            return Err(ModelError::NoTokens);
        }
        if rows > ROWS_MAX {
            return Err(ModelError::Rows { rows, limit: ROWS_MAX });
        }
        let available = self.layers();
        let layers = depth.exit_after.unwrap_or(available);
        match depth.taps.iter().copied().chain([layers]).find(|asked| !(1..=available).contains(asked)) {
            Some(asked) => Err(ModelError::Layers { asked, available }),
            None => Ok(layers),
        }
    }
}

/// A forward pass at work.
struct Pass<'a> {
    decoder: &'a Decoder,
    pool: &'a mut Pool,
    kernels: &'static Kernels,
    buffers: &'a mut Buffers,
}

/// Makes `buffer` hold `len` elements; what they are does not matter.
fn sized(buffer: &mut Vec<f32>, len: usize) {
    buffer.resize(len, 0.0);
}

impl Pass<'_> {
    /// Appends the rows to the caches, embeds them and prepares their rotations.
    fn place(&mut self, segments: &mut [Segment<'_>]) -> Result<Vec<Placed>> {
        let (hidden, rotary) = (self.decoder.config().hidden, &self.decoder.rotary);
        let half = rotary.rotary_dim / 2;
        let total: usize = segments.iter().map(|s| s.rows.len()).sum();
        sized(&mut self.buffers.x, total * hidden);
        sized(&mut self.buffers.cos, total * half);
        sized(&mut self.buffers.sin, total * half);
        let mut placed = Vec::with_capacity(segments.len());
        let mut first_row = 0;
        for segment in segments {
            let cache = &mut *segment.cache;
            cache.reserve(segment.rows.len())?;
            let (committed, tail) = (cache.committed(), cache.tail_len());
            for (i, row) in segment.rows.iter().enumerate() {
                let position = cache.push(row.parent)?;
                let Buffers { x, cos, sin, .. } = &mut *self.buffers;
                let at = first_row + i;
                rotary.write(position, &mut cos[at * half..][..half], &mut sin[at * half..][..half]);
                self.decoder.embed(row.token, &mut x[at * hidden..][..hidden])?;
            }
            let paths = (tail..cache.tail_len()).map(|row| cache.path(row)).collect();
            placed.push(Placed { committed, slots: cache.slots(), first_row, rows: segment.rows.len(), paths });
            first_row += segment.rows.len();
        }
        Ok(placed)
    }

    fn rows(&self) -> usize {
        self.buffers.x.len() / self.decoder.config().hidden
    }

    fn layer(&mut self, index: usize, segments: &mut [Segment<'_>], placed: &[Placed]) {
        let decoder = self.decoder;
        let layer = &decoder.layers[index];
        let caches: Vec<LayerCache> = segments.iter_mut().map(|s| s.cache.layer(index)).collect();
        self.normalise(&layer.input_norm);
        self.project(layer);
        self.rotate_and_store(layer, &caches, placed);
        self.attend(layer, &caches, placed);
        if self.decoder.config().parallel_residual {
            // The feed-forward reads the stream as it was before attention was added.
            self.normalise(&layer.post_norm);
            self.add(&layer.output, |b| (&b.attended, &mut b.x));
        } else {
            self.add(&layer.output, |b| (&b.attended, &mut b.x));
            self.normalise(&layer.post_norm);
        }
        self.inner(&layer.mlp);
        self.add(layer.mlp.down(), |b| (&b.inner, &mut b.x));
    }

    fn normalise(&mut self, norm: &NormLayer) {
        let hidden = self.decoder.config().hidden;
        let Buffers { x, normed, .. } = &mut *self.buffers;
        sized(normed, x.len());
        let rows = x.chunks_exact(hidden).zip(normed.chunks_exact_mut(hidden));
        rows.for_each(|(x, out)| norm.apply(self.kernels, x, out));
    }

    /// Queries, keys and values of all rows.
    fn project(&mut self, layer: &Layer) {
        let (rows, width) = (self.rows(), layer.qkv.outputs());
        let Buffers { normed, qkv, .. } = &mut *self.buffers;
        sized(qkv, rows * width);
        let out = Disjoint::new(qkv);
        layer.qkv.forward((self.pool, self.kernels), normed, &|row, first, values| {
            // SAFETY: each output is emitted once.
            let out = unsafe { out.slice(row * width + first, values.len()) };
            copy_biased(out, values, layer.qkv_bias.as_deref(), first);
        });
    }

    /// Normalises queries and keys where the model does, rotates both, scales the queries and stores keys and values.
    fn rotate_and_store(&mut self, layer: &Layer, caches: &[LayerCache], placed: &[Placed]) {
        let (shape, kernels, rotary) = (layer.attention, self.kernels, &self.decoder.rotary);
        let (dim, group, width) = (shape.head_dim, shape.group(), layer.qkv.outputs());
        let keys_at = shape.heads * dim;
        let values_at = keys_at + shape.kv_heads * dim;
        let scale = 1.0 / (dim as f32).sqrt();
        let Buffers { qkv, cos, sin, .. } = &mut *self.buffers;
        let half = rotary.rotary_dim / 2;
        let qkv = Disjoint::new(qkv);
        let rotate_head = |row: usize, start: usize, norm: Option<&NormLayer>| {
            // SAFETY: the heads of a row are disjoint, and each is visited by one task.
            let head = unsafe { qkv.slice(row * width + start, dim) };
            if let Some(norm) = norm {
                let unscaled = head.to_vec();
                norm.apply(kernels, &unscaled, head);
            }
            rotate(&mut head[..rotary.rotary_dim], &cos[row * half..][..half], &sin[row * half..][..half]);
            head
        };
        let (q_norm, k_norm) = (layer.qk_norm.as_ref().map(|n| &n.0), layer.qk_norm.as_ref().map(|n| &n.1));
        for_heads(self.pool, placed, shape.kv_heads, &|segment, kv_head| {
            for i in 0..placed[segment].rows {
                let row = placed[segment].first_row + i;
                for head in kv_head * group..(kv_head + 1) * group {
                    rotate_head(row, head * dim, q_norm).iter_mut().for_each(|q| *q *= scale);
                }
                let key = rotate_head(row, keys_at + kv_head * dim, k_norm);
                // SAFETY: as above; the cache's head belongs to this task.
                unsafe {
                    let value = qkv.slice(row * width + values_at + kv_head * dim, dim);
                    let slot = placed[segment].slots - placed[segment].rows + i;
                    caches[segment].store(kv_head, slot, key, value);
                }
            }
        });
    }

    fn attend(&mut self, layer: &Layer, caches: &[LayerCache], placed: &[Placed]) {
        let (rows, shape, kernels) = (self.rows(), layer.attention, self.kernels);
        let (dim, qkv_width, width) = (shape.head_dim, layer.qkv.outputs(), shape.heads * shape.head_dim);
        let Buffers { qkv, attended, .. } = &mut *self.buffers;
        sized(attended, rows * width);
        let out = Disjoint::new(attended);
        let contexts: Vec<Context<'_>> = placed
            .iter()
            .zip(caches)
            .map(|(p, cache)| Context { cache, committed: p.committed, slots: p.slots, paths: &p.paths })
            .collect();
        let pieces: Vec<(usize, usize, usize)> = placed
            .iter()
            .enumerate()
            .flat_map(|(s, p)| (0..p.rows).step_by(shape.rows_per_task()).map(move |first| (s, first)))
            .flat_map(|(s, first)| (0..shape.kv_heads).map(move |head| (s, first, head)))
            .collect();
        self.pool.run(pieces.len(), &|i| {
            let (segment, first_row, kv_head) = pieces[i];
            let rows = shape.rows_per_task().min(placed[segment].rows - first_row);
            let start = placed[segment].first_row + first_row;
            let queries: Vec<&[f32]> = (start..start + rows).map(|row| &qkv[row * qkv_width..][..width]).collect();
            let task = Task { context: &contexts[segment], kv_head, first_row, queries: &queries };
            task.run(kernels, &shape, |row, head, values| {
                // SAFETY: each head of each row is emitted once.
                unsafe { out.slice((start + row) * width + head * dim, dim) }.copy_from_slice(values);
            });
        });
    }

    /// The inner activations of the feed-forward part.
    fn inner(&mut self, mlp: &Mlp) {
        let (rows, ffn, act) = (self.rows(), mlp.down().weight.inputs(), self.decoder.activation());
        let Buffers { normed, inner, .. } = &mut *self.buffers;
        sized(inner, rows * ffn);
        let kernels = self.kernels;
        let out = Disjoint::new(inner);
        match mlp {
            Mlp::Gated { gate_up, gate_bias, up_bias, .. } => {
                gate_up.forward((self.pool, kernels), normed, &|row, first, values| {
                    let first = first / 2;
                    let width = (PANEL / 2).min(ffn - first);
                    let (mut gate, mut up) = ([0.0; PANEL / 2], [0.0; PANEL / 2]);
                    copy_biased(&mut gate[..width], &values[..width], gate_bias.as_deref(), first);
                    copy_biased(&mut up[..width], &values[PANEL / 2..][..width], up_bias.as_deref(), first);
                    // SAFETY: each output is emitted once.
                    let out = unsafe { out.slice(row * ffn + first, width) };
                    gated(kernels, act, &gate[..width], &up[..width], out);
                });
            }
            Mlp::Plain { up, .. } => {
                up.weight.forward((self.pool, kernels), normed, &|row, first, values| {
                    // SAFETY: each output is emitted once.
                    let out = unsafe { out.slice(row * ffn + first, values.len()) };
                    copy_biased(out, values, up.bias.as_deref(), first);
                    out.iter_mut().for_each(|v| *v = act.apply(*v));
                });
            }
        }
    }

    /// Adds a linear layer's result to the residual stream.
    fn add(&mut self, linear: &Biased, pick: impl Fn(&mut Buffers) -> (&Vec<f32>, &mut Vec<f32>)) {
        let width = linear.weight.outputs();
        let (input, stream) = pick(self.buffers);
        let out = Disjoint::new(stream);
        linear.weight.forward((self.pool, self.kernels), input, &|row, first, values| {
            // SAFETY: each output is emitted once.
            let out = unsafe { out.slice(row * width + first, values.len()) };
            match &linear.bias {
                Some(bias) => out.iter_mut().zip(values).zip(&bias[first..]).for_each(|((o, v), b)| *o += v + b),
                None => out.iter_mut().zip(values).for_each(|(o, v)| *o += v),
            }
        });
    }

    /// Final norm and head over the rows that want logits; returns where each segment starts.
    fn head(&mut self, segments: &[Segment<'_>], placed: &[Placed]) -> Vec<(usize, usize)> {
        let (hidden, vocab) = (self.decoder.config().hidden, self.decoder.config().vocab);
        let Buffers { x, normed, logits, .. } = &mut *self.buffers;
        normed.clear();
        let mut starts = Vec::with_capacity(placed.len());
        for (segment, p) in segments.iter().zip(placed) {
            starts.push((normed.len() / hidden, p.first_row));
            let wanted = match segment.logits {
                Logits::None => 0,
                Logits::Last => 1.min(p.rows),
                Logits::All => p.rows,
            };
            for row in p.first_row + p.rows - wanted..p.first_row + p.rows {
                let from = normed.len();
                normed.resize(from + hidden, 0.0);
                self.decoder.final_norm.apply(self.kernels, &x[row * hidden..][..hidden], &mut normed[from..]);
            }
        }
        sized(logits, normed.len() / hidden * vocab);
        let (head, out) = (&self.decoder.head, Disjoint::new(logits));
        if !normed.is_empty() {
            head.weight.forward((self.pool, self.kernels), normed, &|row, first, values| {
                // SAFETY: each output is emitted once.
                let out = unsafe { out.slice(row * vocab + first, values.len()) };
                copy_biased(out, values, head.bias.as_deref(), first);
            });
        }
        starts
    }
}

/// `out = values + bias[first..]`.
fn copy_biased(out: &mut [f32], values: &[f32], bias: Option<&[f32]>, first: usize) {
    out.copy_from_slice(values);
    if let Some(bias) = bias {
        out.iter_mut().zip(&bias[first..]).for_each(|(o, b)| *o += b);
    }
}

/// Rotates a head: its first half against its second (the layout of all supported families).
fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = head.split_at_mut(cos.len());
    for (((a, b), c), s) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
    }
}

/// Runs `task(segment, kv head)` for all of them: at once when there is enough to share, else here and now.
fn for_heads(pool: &mut Pool, placed: &[Placed], kv_heads: usize, task: &(dyn Fn(usize, usize) + Sync)) {
    const ROWS_WORTH_SHARING: usize = 4;
    let tasks = placed.len() * kv_heads;
    let run = |i: usize| task(i / kv_heads, i % kv_heads);
    if placed.iter().map(|p| p.rows).sum::<usize>() < ROWS_WORTH_SHARING {
        (0..tasks).for_each(run);
    } else {
        pool.run(tasks, &run);
    }
}
