//! What is done with rows in a layer.

use std::ops::Range;

use super::heads::{Heads, HeadsOfLayer};
use super::{Biased, Layer, Mlp, NormLayer, Projection};
use crate::activation::gated;
use crate::attention::{Context, Task};
use crate::disjoint::Disjoint;
use crate::kernels::claim::claim;
use crate::kernels::{GROUP, Kernels};
use crate::kv_cache::{Beside, LayerCache};
use crate::linear::{Compute, Inputs, Linear, PANEL, Part};
use crate::model_info::ModelInfo;
use crate::pass::sized;
use crate::placed::Placed;
use crate::pool::Pool;
use crate::workspace::Buffers;

/// Rows in a layer: the layer's cache of each of their sequences, and where they stand.
#[derive(Clone, Copy)]
pub(super) struct RowsInLayer<'a> {
    pub(super) caches: &'a [LayerCache],
    pub(super) placed: &'a [Placed],
}

impl<'a> RowsInLayer<'a> {
    /// What the rows of each sequence see, and what stands beside it.
    fn contexts(&self, beside: &'a [Option<Beside>]) -> Vec<Context<'a>> {
        let sequences = self.placed.iter().zip(self.caches).zip(beside);
        let context = |((placed, cache), beside): ((&'a Placed, &'a LayerCache), &'a Option<Beside>)| Context {
            cache,
            beside: beside.as_ref(),
            shared: placed.shared,
            slots: placed.end,
            paths: &placed.paths,
        };
        sequences.map(context).collect()
    }
}

/// Which heads have been rotated, and their keys and values stored, before rows attend.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    All,
    Not,
}

/// A piece of attention that one thread computes.
struct Piece {
    segment: usize,
    /// Among those of the segment.
    rows: Range<usize>,
    kv_head: usize,
}

/// Rows of the stream on their way through a layer.
pub(super) struct LayerPass<'a> {
    pub(super) info: &'a ModelInfo,
    pub(super) kernels: &'static Kernels,
    pub(super) pool: &'a mut Pool,
    /// The rows (rows, hidden).
    pub(super) x: &'a mut [f32],
    pub(super) buffers: &'a mut Buffers,
}

impl LayerPass<'_> {
    fn rows(&self) -> usize {
        self.x.len() / self.info.config.hidden
    }

    /// The stream, normalised, as inputs of `reader`.
    pub(super) fn normalise(&mut self, norm: &NormLayer, reader: &Linear) {
        let (rows, hidden, kernels) = (self.rows(), self.info.config.hidden, self.kernels);
        let (x, threads) = (&self.x[..], self.pool.threads());
        self.buffers.normed.make_room(kernels, reader, rows, threads).fill(self.pool, |row, normed| {
            let x = &x[row * hidden..][..hidden];
            claim(x);
            norm.apply(kernels, x, normed);
        });
    }

    /// The norm and the projections of all rows.
    pub(super) fn project(&mut self, by: &Projection, heads: Heads) {
        self.normalise(&by.norm, &by.map);
        let (rows, width, kernels) = (self.rows(), by.map.outputs(), self.kernels);
        let Buffers { normed, qkv, .. } = &mut *self.buffers;
        sized(qkv, rows * width);
        let out = Disjoint::new(qkv);
        let from = if heads == Heads::All { 0 } else { by.keys_at };
        let compute = Compute { pool: self.pool, kernels };
        by.map.forward_from(from, compute, normed, &|computed| {
            for (row, first, values) in computed.biased(kernels, by.bias.as_deref()).rows() {
                // SAFETY: each output is emitted once.
                copy(unsafe { out.slice(row * width + first, values.len()) }, values);
            }
        });
    }

    /// Rotates heads, and stores keys and values.
    pub(super) fn store(&mut self, layer: &Layer, by: &Projection, which: Heads, rows: RowsInLayer<'_>) {
        let Buffers { qkv, positions, .. } = &mut *self.buffers;
        let heads = HeadsOfLayer {
            kernels: self.kernels,
            rotations: &self.info.rotations,
            positions,
            layer,
            by,
            which,
            qkv: Disjoint::new(qkv),
        };
        let kv_heads = layer.attention.kv_heads;
        self.pool.run(rows.placed.len() * kv_heads, &|task| {
            let (segment, kv_head) = (task / kv_heads, task % kv_heads);
            // SAFETY: each task has a head of its own.
            unsafe { heads.rotate_and_store(&rows.caches[segment], &rows.placed[segment], kv_head) };
        });
    }

    /// Attends; does before what has not been done.
    pub(super) fn attend(&mut self, layer: &Layer, rows: RowsInLayer<'_>, stored: Stored) {
        let RowsInLayer { caches, placed } = rows;
        let beside: Vec<Option<Beside>> =
            placed.iter().map(|placed| layer.states.is_some().then(|| placed.beside())).collect();
        let contexts = rows.contexts(&beside);
        let (all, shape, kernels, team) = (self.rows(), layer.attention, self.kernels, &mut *self.pool);
        let (dim, all_heads) = (shape.head_dim, shape.heads * shape.head_dim);
        let Buffers { qkv, attended, heads: unrounded, positions, .. } = &mut *self.buffers;
        let room = attended.make_room(kernels, &layer.output.weight, all, team.threads());
        // Heads that are no whole groups are rounded when all are there.
        let apart = !dim.is_multiple_of(GROUP);
        sized(unrounded, if apart { all * all_heads } else { 0 });
        let out = Disjoint::new(unrounded);
        let heads = HeadsOfLayer {
            kernels,
            rotations: &self.info.rotations,
            positions,
            layer,
            by: &layer.input,
            which: Heads::All,
            qkv: Disjoint::new(qkv),
        };
        let rows_per_task = caches.first().map_or(1, |cache| shape.rows_per_task(cache.format()));
        // Where one task attends for all rows of a sequence, it stores their keys and values first; where several do, that
        // has to be done before.
        let few = |segment: usize| stored == Stored::Not && placed[segment].rows() <= rows_per_task;
        let many: Vec<usize> = (0..placed.len()).filter(|&segment| stored == Stored::Not && !few(segment)).collect();
        let store = |segment: usize, kv_head| {
            // SAFETY: each head of a sequence is one task's.
            unsafe { heads.rotate_and_store(&caches[segment], &placed[segment], kv_head) };
        };
        team.run(many.len() * shape.kv_heads, &|task| store(many[task / shape.kv_heads], task % shape.kv_heads));
        let pieces = pieces(placed, shape.kv_heads, rows_per_task);
        team.run(pieces.len(), &|i| {
            let Piece { segment, ref rows, kv_head } = pieces[i];
            if few(segment) {
                store(segment, kv_head);
            }
            let start = placed[segment].first_row + rows.start;
            // SAFETY: whoever rotates these queries has done so.
            let queries: Vec<&[f32]> =
                (start..start + rows.len()).map(|row| unsafe { heads.queries(row, kv_head) }).collect();
            let task = Task { context: &contexts[segment], kv_head, first_row: rows.start, queries: &queries };
            task.run(kernels, &shape, |means| {
                let width = shape.group() * dim;
                let first = kv_head * width;
                if apart {
                    for (row, means) in (start..).zip(means.chunks_exact(width)) {
                        // SAFETY: each head of each row is emitted once.
                        unsafe { out.slice(row * all_heads + first, width) }.copy_from_slice(means);
                    }
                } else {
                    // SAFETY: as above.
                    unsafe { room.put(Part { first_row: start, first, width, values: means, stride: width }) };
                }
            });
        });
        if apart {
            room.fill(team, |row, values| values.copy_from_slice(&unrounded[row * all_heads..][..all_heads]));
        }
    }

    /// Adds what was attended to the stream, and then what the feed-forward part makes of it.
    pub(super) fn add_and_feed_forward(&mut self, layer: &Layer) {
        if self.info.config.parallel_residual {
            // The feed-forward reads the stream as it was before attention was added.
            self.normalise(&layer.post_norm, layer.mlp.inner());
            self.add(&layer.output, |buffers| &buffers.attended);
        } else {
            self.add(&layer.output, |buffers| &buffers.attended);
            self.normalise(&layer.post_norm, layer.mlp.inner());
        }
        self.inner(&layer.mlp);
        self.add(layer.mlp.down(), |buffers| &buffers.inner);
    }

    /// The inner activations of the feed-forward part.
    fn inner(&mut self, mlp: &Mlp) {
        let (rows, ffn, act, kernels) =
            (self.rows(), mlp.down().weight.inputs(), self.info.config.activation, self.kernels);
        let Buffers { normed, inner, .. } = &mut *self.buffers;
        let room = inner.make_room(kernels, &mlp.down().weight, rows, self.pool.threads());
        let compute = Compute { pool: self.pool, kernels };
        match mlp {
            Mlp::Gated { gate_up, gate_bias, up_bias, .. } => {
                gate_up.forward(compute, normed, &|computed| {
                    let first = computed.first / 2;
                    let width = (PANEL / 2).min(ffn - first);
                    for (gate_or_up, bias) in [gate_bias, up_bias].into_iter().enumerate() {
                        let Some(bias) = bias else { continue };
                        let halves = computed.sums.chunks_exact_mut(PANEL / 2).skip(gate_or_up).step_by(2);
                        halves.for_each(|half| kernels.add(&mut half[..width], &bias[first..][..width]));
                    }
                    gated(kernels, act, computed.sums, PANEL / 2);
                    // SAFETY: each output is emitted once, a panel's are whole groups.
                    unsafe { room.put(Part { first, width, ..computed.as_inputs() }) };
                });
            }
            Mlp::Plain { up, .. } => up.weight.forward(compute, normed, &|computed| {
                let inner = computed.biased(kernels, up.bias.as_deref());
                inner.sums.iter_mut().for_each(|v| *v = act.apply(*v));
                // SAFETY: as above.
                unsafe { room.put(inner.as_inputs()) };
            }),
        }
    }

    /// Adds a linear layer's result to the stream.
    fn add(&mut self, linear: &Biased, input: impl Fn(&Buffers) -> &Inputs) {
        let (width, kernels, input) = (linear.weight.outputs(), self.kernels, input(self.buffers));
        let out = Disjoint::new(self.x);
        linear.weight.forward(Compute { pool: self.pool, kernels }, input, &|computed| {
            for (row, first, values) in computed.biased(kernels, linear.bias.as_deref()).rows() {
                // SAFETY: each output is emitted once.
                kernels.add(unsafe { out.slice(row * width + first, values.len()) }, values);
            }
        });
    }
}

/// The work of attention, so cut that a piece keeps a thread busy. Pieces of a segment are about equally long: few queries
/// leave the product kernel waiting. Those of a head lie side by side: most are done by one thread, which has just stored
/// its keys and values.
fn pieces(placed: &[Placed], kv_heads: usize, rows_per_task: usize) -> Vec<Piece> {
    let of_segment = |(segment, placed): (usize, &Placed)| {
        let rows = placed.rows();
        let count = rows.div_ceil(rows_per_task);
        let of_head = move |kv_head| {
            (0..count).map(move |i| Piece { segment, rows: i * rows / count..(i + 1) * rows / count, kv_head })
        };
        (0..kv_heads).flat_map(of_head)
    };
    placed.iter().enumerate().flat_map(of_segment).collect()
}

/// `out = values`.
pub(super) fn copy(out: &mut [f32], values: &[f32]) {
    // Nearly all rows are those of whole panels, whose copies of known length are a few instructions.
    match (<&mut [f32; PANEL]>::try_from(&mut *out), <&[f32; PANEL]>::try_from(values)) {
        (Ok(out), Ok(values)) => *out = *values,
        _ => out.copy_from_slice(values),
    }
}
