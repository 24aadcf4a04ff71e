//! A pass on the CPU, over packed weights.

use super::{Biased, Layer, Mlp, NormLayer, Packed, Projection};
use crate::activation::gated;
use crate::attention::{Context, Task};
use crate::disjoint::Disjoint;
use crate::error::{ModelError, Result};
use crate::kernels::Kernels;
use crate::kv_cache::{Beside, LayerCache};
use crate::linear::Rounded;
use crate::linear::{Compute, PANEL};
use crate::model_info::ModelInfo;
use crate::pass::{Keys, Pass, Results, sized};
use crate::placed::Placed;
use crate::pool::Pool;
use crate::team::Turn;
use crate::workspace::{Buffers, Workspace};

/// Rows in a layer: the layer's cache of each of their sequences, and where they stand.
#[derive(Clone, Copy)]
struct RowsInLayer<'a> {
    caches: &'a [LayerCache],
    placed: &'a [Placed],
}

/// A piece of attention that one thread computes.
struct Piece {
    segment: usize,
    /// First row, among those of the segment.
    first_row: usize,
    kv_head: usize,
}

/// Which heads of a layer are projected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heads {
    /// Queries, keys and values.
    All,
    /// Only those that other rows see.
    KeysAndValues,
}

/// A pass at work.
pub(crate) struct PackedPass<'a> {
    info: &'a ModelInfo,
    model: &'a Packed,
    team: Turn<'a>,
    kernels: &'static Kernels,
    buffers: &'a mut Buffers,
    results: &'a mut Results,
    rounded: &'a mut Rounded,
}

impl Pass for PackedPass<'_> {
    fn embed(&mut self, tokens: &[u32]) -> Result<()> {
        let hidden = self.info.config.hidden;
        let x = &mut self.buffers.x;
        sized(x, tokens.len() * hidden);
        tokens.iter().try_for_each(|token| self.info.check_token(*token))?;
        tokens.iter().zip(x.chunks_exact_mut(hidden)).for_each(|(token, x)| self.model.embed(*token, x));
        Ok(())
    }

    fn load(&mut self, states: &[f32]) -> Result<()> {
        self.buffers.x.clear();
        self.buffers.x.extend_from_slice(states);
        Ok(())
    }

    fn keep(&mut self, rows: &[usize]) -> Result<()> {
        let hidden = self.info.config.hidden;
        let x = &mut self.buffers.x;
        for (to, &from) in rows.iter().enumerate() {
            x.copy_within(from * hidden..(from + 1) * hidden, to * hidden);
        }
        x.truncate(rows.len() * hidden);
        Ok(())
    }

    fn place(&mut self, placed: &[Placed]) -> Result<()> {
        if placed.iter().any(|placed| placed.blocks.are_on_devices()) {
            return Err(ModelError::CacheElsewhere);
        }
        self.rotations(placed);
        Ok(())
    }

    fn layer(&mut self, index: usize, placed: &[Placed]) -> Result<()> {
        self.team.give_way();
        let layer = &self.model.layers[index];
        let caches: Vec<LayerCache> = placed.iter().map(|placed| placed.layer(index)).collect();
        self.project(&layer.input, Heads::All);
        let rows = RowsInLayer { caches: &caches, placed };
        self.rotate_and_store(layer, &layer.input, Heads::All, rows);
        self.attend(layer, rows);
        if self.info.config.parallel_residual {
            // The feed-forward reads the stream as it was before attention was added.
            self.normalise(&layer.post_norm);
            self.add(&layer.output, |b| (&b.attended, &mut b.x));
        } else {
            self.add(&layer.output, |b| (&b.attended, &mut b.x));
            self.normalise(&layer.post_norm);
        }
        self.inner(&layer.mlp);
        self.add(layer.mlp.down(), |b| (&b.inner, &mut b.x));
        Ok(())
    }

    fn keys_and_values(&mut self, index: usize, keys: Keys, placed: &[Placed]) -> Result<()> {
        let layer = &self.model.layers[index];
        let (by, index) = match (keys, &layer.states) {
            (Keys::OfStates, Some(by)) => (by, self.info.cache_layers() - 1),
            _ => (&layer.input, index),
        };
        let caches: Vec<LayerCache> = placed.iter().map(|placed| placed.layer(index)).collect();
        self.project(by, Heads::KeysAndValues);
        self.rotate_and_store(layer, by, Heads::KeysAndValues, RowsInLayer { caches: &caches, placed });
        Ok(())
    }

    fn tap(&mut self, tap: usize) -> Result<()> {
        self.results.taps[tap].clone_from(&self.buffers.x);
        Ok(())
    }

    fn states(&mut self) -> Result<&[f32]> {
        Ok(&self.buffers.x)
    }

    fn answer(&mut self, places: &[usize]) -> Result<()> {
        self.normalise(&self.model.final_norm);
        self.head(places);
        Ok(())
    }

    fn results(&mut self) -> &mut Results {
        self.results
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl PackedPass<'_> {
    /// A pass of `decoder` in the buffers of `work`, as soon as its team is free.
    pub(crate) fn new<'a>(info: &'a ModelInfo, model: &'a Packed, work: &'a mut Workspace) -> PackedPass<'a> {
        let Workspace { team, kernels, buffers, results, rounded, waited } = work;
        PackedPass { info, model, team: team.turn(waited), kernels, buffers, results, rounded }
    }

    /// Prepares the rotations of all rows.
    fn rotations(&mut self, placed: &[Placed]) {
        let rotary = &self.info.rotary;
        let (rows, half) = (placed.iter().map(Placed::rows).sum::<usize>(), rotary.rotary_dim / 2);
        let Buffers { cos, sin, .. } = &mut *self.buffers;
        sized(cos, rows * half);
        sized(sin, rows * half);
        let positions = placed.iter().flat_map(Placed::positions);
        for ((position, cos), sin) in positions.zip(cos.chunks_exact_mut(half)).zip(sin.chunks_exact_mut(half)) {
            rotary.write(position, cos, sin);
        }
    }

    /// Rows of the residual stream.
    fn rows(&self) -> usize {
        self.buffers.x.len() / self.info.config.hidden
    }

    fn normalise(&mut self, norm: &NormLayer) {
        let hidden = self.info.config.hidden;
        let Buffers { x, normed, .. } = &mut *self.buffers;
        sized(normed, x.len());
        let rows = x.chunks_exact(hidden).zip(normed.chunks_exact_mut(hidden));
        rows.for_each(|(x, out)| norm.apply(self.kernels, x, out));
    }

    /// The norm and the projections of all rows.
    fn project(&mut self, by: &Projection, heads: Heads) {
        self.normalise(&by.norm);
        let (rows, width) = (self.rows(), by.map.outputs());
        let Buffers { normed, qkv, .. } = &mut *self.buffers;
        sized(qkv, rows * width);
        let out = Disjoint::new(qkv);
        let from = if heads == Heads::All { 0 } else { by.keys_at };
        by.map.forward_from(
            from,
            Compute { pool: &mut self.team, kernels: self.kernels, rounded: self.rounded },
            normed,
            &|row, first, values| {
                // SAFETY: each output is emitted once.
                let out = unsafe { out.slice(row * width + first, values.len()) };
                copy_biased(out, values, by.bias.as_deref(), first);
            },
        );
    }

    /// Normalises queries and keys where the model does, rotates both, scales the queries and stores keys and values.
    fn rotate_and_store(&mut self, layer: &Layer, by: &Projection, heads: Heads, rows: RowsInLayer<'_>) {
        let RowsInLayer { caches, placed } = rows;
        let (shape, kernels, rotary) = (layer.attention, self.kernels, &self.info.rotary);
        let (dim, group, width, keys_at) = (shape.head_dim, shape.group(), by.map.outputs(), by.keys_at);
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
        for_heads(&mut self.team, placed, shape.kv_heads, &|segment, kv_head| {
            let Placed { first_row, .. } = placed[segment];
            for (row, slot) in (first_row..).zip(placed[segment].slots()) {
                let queries = if heads == Heads::All { kv_head * group..(kv_head + 1) * group } else { 0..0 };
                for head in queries {
                    rotate_head(row, head * dim, q_norm).iter_mut().for_each(|q| *q *= scale);
                }
                let key = rotate_head(row, keys_at + kv_head * dim, k_norm);
                // SAFETY: as above; the cache's head belongs to this task.
                unsafe {
                    let value = qkv.slice(row * width + values_at + kv_head * dim, dim);
                    caches[segment].store(kv_head, slot, key, value);
                }
            }
        });
    }

    fn attend(&mut self, layer: &Layer, rows: RowsInLayer<'_>) {
        let RowsInLayer { caches, placed } = rows;
        let beside = |placed: &Placed| layer.states.is_some().then(|| placed.beside());
        let beside: Vec<Option<Beside>> = placed.iter().map(beside).collect();
        let (rows, shape, kernels) = (self.rows(), layer.attention, self.kernels);
        let (dim, qkv_width, width) = (shape.head_dim, layer.input.map.outputs(), shape.heads * shape.head_dim);
        let Buffers { qkv, attended, .. } = &mut *self.buffers;
        sized(attended, rows * width);
        let out = Disjoint::new(attended);
        let contexts: Vec<Context<'_>> = placed
            .iter()
            .zip(caches.iter().zip(&beside))
            .map(|(p, (cache, beside))| Context {
                cache,
                beside: beside.as_ref(),
                shared: p.shared,
                slots: p.end,
                paths: &p.paths,
            })
            .collect();
        let rows_per_task = caches.first().map_or(1, |cache| shape.rows_per_task(cache.format()));
        let pieces = pieces(placed, shape.kv_heads, rows_per_task);
        self.team.run(pieces.len(), &|i| {
            let Piece { segment, first_row, kv_head } = pieces[i];
            let rows = rows_per_task.min(placed[segment].rows() - first_row);
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
        let (rows, ffn, act) = (self.rows(), mlp.down().weight.inputs(), self.info.config.activation);
        let Buffers { normed, inner, .. } = &mut *self.buffers;
        sized(inner, rows * ffn);
        let kernels = self.kernels;
        let out = Disjoint::new(inner);
        match mlp {
            Mlp::Gated { gate_up, gate_bias, up_bias, .. } => {
                gate_up.forward(
                    Compute { pool: &mut self.team, kernels, rounded: self.rounded },
                    normed,
                    &|row, first, values| {
                        let first = first / 2;
                        let width = (PANEL / 2).min(ffn - first);
                        let (mut gate, mut up) = ([0.0; PANEL / 2], [0.0; PANEL / 2]);
                        copy_biased(&mut gate[..width], &values[..width], gate_bias.as_deref(), first);
                        copy_biased(&mut up[..width], &values[PANEL / 2..][..width], up_bias.as_deref(), first);
                        // SAFETY: each output is emitted once.
                        let out = unsafe { out.slice(row * ffn + first, width) };
                        gated(kernels, act, &gate[..width], &up[..width], out);
                    },
                );
            }
            Mlp::Plain { up, .. } => {
                up.weight.forward(
                    Compute { pool: &mut self.team, kernels, rounded: self.rounded },
                    normed,
                    &|row, first, values| {
                        // SAFETY: each output is emitted once.
                        let out = unsafe { out.slice(row * ffn + first, values.len()) };
                        copy_biased(out, values, up.bias.as_deref(), first);
                        out.iter_mut().for_each(|v| *v = act.apply(*v));
                    },
                );
            }
        }
    }

    /// Adds a linear layer's result to the residual stream.
    fn add(&mut self, linear: &Biased, pick: impl Fn(&mut Buffers) -> (&Vec<f32>, &mut Vec<f32>)) {
        let width = linear.weight.outputs();
        let (input, stream) = pick(self.buffers);
        let out = Disjoint::new(stream);
        linear.weight.forward(
            Compute { pool: &mut self.team, kernels: self.kernels, rounded: self.rounded },
            input,
            &|row, first, values| {
                // SAFETY: each output is emitted once.
                let out = unsafe { out.slice(row * width + first, values.len()) };
                match &linear.bias {
                    Some(bias) => out.iter_mut().zip(values).zip(&bias[first..]).for_each(|((o, v), b)| *o += v + b),
                    None => out.iter_mut().zip(values).for_each(|(o, v)| *o += v),
                }
            },
        );
    }

    /// The head over the normalised rows: `rows[i]` is where the logits of the `i`-th of them go.
    fn head(&mut self, rows: &[usize]) {
        if rows.is_empty() {
            return;
        }
        let (head, vocab) = (&self.model.head, self.info.config.vocab);
        let normed = &self.buffers.normed;
        let out = Disjoint::new(&mut self.results.logits);
        head.weight.forward(
            Compute { pool: &mut self.team, kernels: self.kernels, rounded: self.rounded },
            normed,
            &|row, first, values| {
                // SAFETY: each output is emitted once, and no two rows go to one place.
                let out = unsafe { out.slice(rows[row] * vocab + first, values.len()) };
                copy_biased(out, values, head.bias.as_deref(), first);
            },
        );
    }
}

/// The work of attention, so cut that a piece keeps a thread busy.
fn pieces(placed: &[Placed], kv_heads: usize, rows_per_task: usize) -> Vec<Piece> {
    let of_rows = |segment, first_row| (0..kv_heads).map(move |kv_head| Piece { segment, first_row, kv_head });
    let of_segment = |(segment, placed): (usize, &Placed)| {
        (0..placed.rows()).step_by(rows_per_task).flat_map(move |first_row| of_rows(segment, first_row))
    };
    placed.iter().enumerate().flat_map(of_segment).collect()
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
    if placed.iter().map(Placed::rows).sum::<usize>() < ROWS_WORTH_SHARING {
        (0..tasks).for_each(run);
    } else {
        pool.run(tasks, &run);
    }
}
