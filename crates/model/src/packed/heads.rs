//! The heads of rows in a layer, between their projection and attention.

use super::{Layer, NormLayer, Projection};
use crate::disjoint::Disjoint;
use crate::kernels::Kernels;
use crate::kernels::claim::claim;
use crate::kv_cache::LayerCache;
use crate::placed::Placed;
use crate::rotations::Rotations;

/// Which heads of a layer are projected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Heads {
    /// Queries, keys and values.
    All,
    /// Only those that other rows see.
    KeysAndValues,
}

/// What was projected, and where it stands.
pub(super) struct HeadsOfLayer<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) rotations: &'a Rotations,
    /// Of each row.
    pub(super) positions: &'a [usize],
    pub(super) layer: &'a Layer,
    pub(super) by: &'a Projection,
    pub(super) which: Heads,
    /// Queries, keys and values (rows, outputs of the projection).
    pub(super) qkv: Disjoint<'a, f32>,
}

impl HeadsOfLayer<'_> {
    /// For the rows of a sequence: normalises queries and the key of a key/value head where the model does, rotates both,
    /// scales the queries and stores key and value.
    ///
    /// # Safety
    /// Nobody else touches these heads, or what is cached of this one for these rows, meanwhile.
    pub(super) unsafe fn rotate_and_store(&self, cache: &LayerCache, placed: &Placed, kv_head: usize) {
        let shape = self.layer.attention;
        let (dim, group, keys_at) = (shape.head_dim, shape.group(), self.by.keys_at);
        let values_at = keys_at + shape.kv_heads * dim;
        let scale = 1.0 / (dim as f32).sqrt();
        let (q_norm, k_norm) = self.layer.qk_norm.as_ref().map(|(q, k)| (q, k)).unzip();
        let queries = if self.which == Heads::All { kv_head * group..(kv_head + 1) * group } else { 0..0 };
        for (row, slot) in (placed.first_row..).zip(placed.slots()) {
            // SAFETY: the caller's promise.
            unsafe {
                claim(self.part(row, queries.start * dim, queries.len() * dim));
                claim(self.part(row, keys_at + kv_head * dim, dim));
                claim(self.part(row, values_at + kv_head * dim, dim));
                for head in queries.clone() {
                    self.kernels.scale(self.rotate(row, head * dim, q_norm), scale);
                }
                let key = self.rotate(row, keys_at + kv_head * dim, k_norm);
                let value = self.part(row, values_at + kv_head * dim, dim);
                cache.store(kv_head, slot, key, value);
            }
        }
    }

    /// The queries of a row that share a key/value head (group * head_dim).
    ///
    /// # Safety
    /// Nobody changes them any more.
    pub(super) unsafe fn queries(&self, row: usize, kv_head: usize) -> &[f32] {
        let width = self.layer.attention.group() * self.layer.attention.head_dim;
        // SAFETY: the caller's promise.
        unsafe { self.part(row, kv_head * width, width) }
    }

    /// Normalises and rotates the head of a row that begins at `start`.
    #[allow(clippy::mut_from_ref)]
    unsafe fn rotate(&self, row: usize, start: usize, norm: Option<&NormLayer>) -> &mut [f32] {
        // SAFETY: the caller has this head to itself.
        let head = unsafe { self.part(row, start, self.layer.attention.head_dim) };
        if let Some(norm) = norm {
            let unscaled = head.to_vec();
            norm.apply(self.kernels, &unscaled, head);
        }
        self.rotations.at(self.positions[row]).apply(self.kernels, head);
        head
    }

    /// So many numbers of a row from `start` on, which nobody else has.
    #[allow(clippy::mut_from_ref)]
    unsafe fn part(&self, row: usize, start: usize, len: usize) -> &mut [f32] {
        // SAFETY: passed on to the caller.
        unsafe { self.qkv.slice(row * self.by.map.outputs() + start, len) }
    }
}
