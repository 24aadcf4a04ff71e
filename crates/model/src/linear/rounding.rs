//! Rows of inputs, rounded for products in blocks.

use super::blocks::RoundedRows;
use crate::disjoint::Disjoint;
use crate::kernels::{Bf16Group, GROUP, InputGroup, Kernels};
use crate::pool::Pool;

/// Where rounded rows are kept: of the kind that a layer asks for, the last layer's. Groups of inputs, those of all rows
/// side by side.
#[derive(Default)]
pub(crate) struct Rounded {
    int8: Vec<InputGroup>,
    bf16: Vec<Bf16Group>,
}

/// Rows of inputs to be rounded.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Row after row.
    pub(super) x: &'a [f32],
    /// Of a row.
    pub(super) inputs: usize,
}

impl Rounded {
    /// Rounds to bytes and keeps them.
    pub(super) fn keep_int8(&mut self, pool: &mut Pool, kernels: &Kernels, rows: Rows<'_>) {
        rows.round(pool, &mut self.int8, InputGroup::ZERO, |values, group| kernels.round_to_int8(values, group));
    }

    /// Rounds to bf16 for tiles and keeps them.
    pub(super) fn keep_for_tiles(&mut self, pool: &mut Pool, kernels: &Kernels, rows: Rows<'_>) {
        rows.round(pool, &mut self.bf16, Bf16Group::ZERO, |values, group| kernels.round_for_tiles(values, group));
    }

    /// Rounds to bf16 for dot products and keeps them.
    pub(super) fn keep_for_dots(&mut self, pool: &mut Pool, kernels: &Kernels, rows: Rows<'_>) {
        rows.round(pool, &mut self.bf16, Bf16Group::ZERO, |values, group| kernels.round_for_dots(values, group));
    }

    /// `count` rows from `first` on of `stride` that were rounded to bytes.
    pub(super) fn int8(&self, stride: usize, first: usize, count: usize) -> RoundedRows<'_, InputGroup> {
        RoundedRows { groups: &self.int8, stride, first, count }
    }

    /// The same of rows that were rounded to bf16.
    pub(super) fn bf16(&self, stride: usize, first: usize, count: usize) -> RoundedRows<'_, Bf16Group> {
        RoundedRows { groups: &self.bf16, stride, first, count }
    }
}

impl Rows<'_> {
    fn round<X: Copy + Send>(
        self,
        pool: &mut Pool,
        groups: &mut Vec<X>,
        zero: X,
        round: impl Fn(&[f32], &mut X) + Sync,
    ) {
        let rows = self.x.len() / self.inputs;
        groups.resize(rows * self.inputs.div_ceil(GROUP), zero);
        let out = Disjoint::new(groups);
        pool.run(rows, &|row| {
            for (group, values) in self.x[row * self.inputs..][..self.inputs].chunks(GROUP).enumerate() {
                // SAFETY: each group of a row belongs to one task.
                round(values, &mut unsafe { out.slice(group * rows + row, 1) }[0]);
            }
        });
    }
}
