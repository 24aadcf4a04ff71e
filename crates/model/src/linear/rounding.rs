//! Rows of inputs, rounded for products in blocks.

use super::blocks::RoundedRows;
use crate::disjoint::Disjoint;
use crate::kernels::{Bf16Line, GROUP, InputGroup, Kernels};
use crate::pool::Pool;

/// Where rounded rows are kept: of the kind that a layer asks for, the last layer's. Groups of inputs, those of all rows
/// side by side.
#[derive(Default)]
pub(crate) struct Rounded {
    int8: Vec<InputGroup>,
    bf16: Vec<Bf16Line>,
    /// Elements of a group of those of the last layer.
    lines: usize,
}

/// Rows that one task rounds.
const ROWS_AT_ONCE: usize = 8;

/// Values of which threads have their shares: fewer are rounded before another thread has begun.
const VALUES_WORTH_SHARING: usize = 16_384;

/// Rows of inputs to be rounded.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Row after row.
    pub(super) x: &'a [f32],
    /// Of a row.
    pub(super) inputs: usize,
}

/// How many rows lie between the same group of inputs and the next: all, and some more where there are many. Sixty-four
/// would put the groups of a row at the same place of the first cache.
fn stride(rows: usize) -> usize {
    if rows <= 32 { rows } else { rows + 8 }
}

impl Rounded {
    /// Rounds to bytes and keeps them.
    pub(super) fn keep_int8(&mut self, pool: &mut Pool, kernels: &Kernels, rows: Rows<'_>) {
        self.lines = 1;
        rows.round(pool, To { elements: &mut self.int8, zero: InputGroup::ZERO, lines: 1 }, |values, group| {
            kernels.round_to_int8(values, &mut group[0]);
        });
    }

    /// Rounds to bf16 for tiles and keeps them.
    pub(super) fn keep_for_tiles(&mut self, pool: &mut Pool, kernels: &Kernels, rows: Rows<'_>) {
        self.lines = kernels.tile_lines;
        let to = To { elements: &mut self.bf16, zero: Bf16Line::ZERO, lines: self.lines };
        rows.round(pool, to, |values, lines| kernels.round_for_tiles(values, lines));
    }

    /// Rounds to bf16 for dot products and keeps them.
    pub(super) fn keep_for_dots(&mut self, pool: &mut Pool, kernels: &Kernels, rows: Rows<'_>) {
        self.lines = kernels.dot_lines;
        let to = To { elements: &mut self.bf16, zero: Bf16Line::ZERO, lines: self.lines };
        rows.round(pool, to, |values, lines| kernels.round_for_dots(values, lines));
    }

    /// `count` rows from `first` on of `rows` that were rounded to bytes.
    pub(super) fn int8(&self, rows: usize, first: usize, count: usize) -> RoundedRows<'_, InputGroup> {
        RoundedRows { groups: &self.int8, lines: self.lines, stride: stride(rows), first, count }
    }

    /// The same of rows that were rounded to bf16.
    pub(super) fn bf16(&self, rows: usize, first: usize, count: usize) -> RoundedRows<'_, Bf16Line> {
        RoundedRows { groups: &self.bf16, lines: self.lines, stride: stride(rows), first, count }
    }
}

/// Where rows are rounded to.
struct To<'a, X> {
    elements: &'a mut Vec<X>,
    zero: X,
    /// Elements of a group.
    lines: usize,
}

impl Rows<'_> {
    fn round<X: Copy + Send>(self, pool: &mut Pool, to: To<'_, X>, round: impl Fn(&[f32], &mut [X]) + Sync) {
        let To { elements, zero, lines } = to;
        let rows = self.x.len() / self.inputs;
        elements.resize(stride(rows) * self.inputs.div_ceil(GROUP) * lines, zero);
        let out = Disjoint::new(elements);
        let task = |task: usize| {
            for row in task * ROWS_AT_ONCE..rows.min((task + 1) * ROWS_AT_ONCE) {
                for (group, values) in self.x[row * self.inputs..][..self.inputs].chunks(GROUP).enumerate() {
                    // SAFETY: each group of a row belongs to one task.
                    round(values, unsafe { out.slice((group * stride(rows) + row) * lines, lines) });
                }
            }
        };
        let tasks = rows.div_ceil(ROWS_AT_ONCE);
        if self.x.len() < VALUES_WORTH_SHARING {
            (0..tasks).for_each(task);
        } else {
            pool.run(tasks, &task);
        }
    }
}
