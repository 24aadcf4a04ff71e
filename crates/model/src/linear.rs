//! Linear layers, packed once at load.
//!
//! The weight matrix (out, in) is cut into panels of [`PANEL`] outputs. One pass over the panels serves any number of rows
//! and reads every weight once, from front to back. In f32 arithmetic a panel is cut into pairs of vectors; a pair holds,
//! for each input, the weights of its [`PAIR`] outputs side by side. In other arithmetics it lies in [`blocks`].

mod blocks;
mod inputs;
mod int8;
mod layout;
mod matrix;
mod packing;
mod stored_rows;
#[cfg(test)]
mod stored_tests;
#[cfg(test)]
mod tests;
mod tiles;

use std::mem::MaybeUninit;

use self::layout::PAIR;
use self::matrix::Panels;
use crate::kernels::{Bf16Order, Kernels, LANES, Product};
use crate::pool::Pool;

pub(crate) use self::inputs::{Inputs, Part};
pub(crate) use self::layout::PANEL;
pub(crate) use self::matrix::Linear;
pub(crate) use self::packing::Packer;

/// What a layer is computed with.
pub(crate) struct Compute<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) kernels: &'a Kernels,
}

/// What a layer makes of some rows: neighbouring outputs, which whoever takes them may work on.
pub(crate) struct Outputs<'a> {
    first_row: usize,
    /// The first of the outputs.
    pub(crate) first: usize,
    /// How many there are, at most [`PANEL`].
    width: usize,
    /// (rows, [`PANEL`]), of which the first ones count.
    pub(crate) sums: &'a mut [f32],
}

impl<'a> Outputs<'a> {
    /// Each row: its number, that of its first output, and its outputs.
    pub(crate) fn rows(self) -> impl Iterator<Item = (usize, usize, &'a mut [f32])> {
        let Self { first_row, first, width, sums } = self;
        let rows = sums.chunks_exact_mut(PANEL).enumerate();
        rows.map(move |(row, sums)| (first_row + row, first, &mut sums[..width]))
    }

    /// They become inputs of the same numbers.
    pub(crate) fn as_inputs(&self) -> Part<'_> {
        let Self { first_row, first, width, ref sums } = *self;
        Part { first_row, first, width, values: sums, stride: PANEL }
    }

    /// Plus the bias of all outputs of the layer, if it has one.
    pub(crate) fn biased(self, kernels: &Kernels, bias: Option<&[f32]>) -> Self {
        if let Some(bias) = bias {
            let of_these = &bias[self.first..][..self.width];
            self.sums.chunks_exact_mut(PANEL).for_each(|sums| kernels.add(&mut sums[..self.width], of_these));
        }
        self
    }
}

impl Linear {
    /// Computes inputs that were made for it times the matrix and hands finished outputs to `emit`, possibly from several
    /// threads at once, each output once.
    pub(crate) fn forward(&self, compute: Compute<'_>, x: &Inputs, emit: &(dyn Fn(Outputs<'_>) + Sync)) {
        self.forward_from(0, compute, x, emit);
    }

    /// The same for the panels from that of output `output` on, whose outputs before it are computed too.
    pub(crate) fn forward_from(
        &self,
        output: usize,
        Compute { pool, kernels }: Compute<'_>,
        x: &Inputs,
        emit: &(dyn Fn(Outputs<'_>) + Sync),
    ) {
        let (rows, skipped, rows_at_once) = (x.rows(), output / PANEL, self.rows_at_once());
        pool.run(self.outputs.div_ceil(PANEL) - skipped, &|panel| {
            let panel = panel + skipped;
            let first = panel * PANEL;
            let width = PANEL.min(self.outputs - first);
            let mut sums = Sums::new();
            for from in (0..rows).step_by(rows_at_once) {
                let count = rows_at_once.min(rows - from);
                let sums = self.panel(kernels, panel, Rows { x, from, count }, &mut sums);
                emit(Outputs { first_row: from, first, width, sums });
            }
        });
    }

    /// Rows that one task multiplies before it hands them on: a multiple of every register tile's height.
    fn rows_at_once(&self) -> usize {
        match self.panels {
            Panels::Bf16(Bf16Order::Tiles, _) => ROWS_MAX,
            _ => 48,
        }
    }

    /// One panel times some rows: rows of [`PANEL`] sums.
    fn panel<'s>(&self, kernels: &Kernels, panel: usize, rows: Rows<'_>, sums: &'s mut Sums) -> &'s mut [f32] {
        let (weights, Rows { x, from, count }) = (panel * PANEL * self.inputs, rows);
        let acc = &mut sums.0[..count * PANEL];
        if let Panels::F32(_) | Panels::Widened(_) = self.panels {
            // These products add to what is there, the others write.
            acc.fill(MaybeUninit::new(0.0));
        }
        // SAFETY: `x` holds whole rows, `acc` a row of PANEL for each, the slices below whole panels; all of `acc` is
        // written.
        unsafe {
            match &self.panels {
                Panels::F32(w) => {
                    kernels.product_f32(self.product(x.floats(from, count), &w.as_slice()[weights..], acc));
                }
                Panels::Widened(w) => {
                    kernels.product_widened(self.product(x.floats(from, count), &w.as_slice()[weights..], acc));
                }
                Panels::Bf16(order, panels) => {
                    kernels.bf16(*order).product(panels.product(panel, &x.bf16(from, count), acc));
                }
                Panels::Q8(panels) => kernels.product_q8(panels.product(panel, &x.bytes(from, count), acc)),
                Panels::Q4(panels) => kernels.product_q4(panels.product(panel, &x.bytes(from, count), acc)),
            }
            acc.assume_init_mut()
        }
    }

    fn product<W>(&self, x: &[f32], w: &[W], acc: &mut [MaybeUninit<f32>]) -> Product<W> {
        let rows = x.len() / self.inputs;
        assert!(w.len() >= PANEL * self.inputs && acc.len() >= rows * PANEL, "panel and accumulators are whole");
        Product {
            x: x.as_ptr(),
            x_stride: self.inputs,
            rows,
            w: w.as_ptr(),
            w_stride: PAIR,
            pair_stride: PAIR * self.inputs,
            depth: self.inputs,
            vectors: PANEL / LANES,
            acc: acc.as_mut_ptr().cast(),
            acc_stride: PANEL,
        }
    }
}

/// Most rows that one task multiplies before it hands them on.
const ROWS_MAX: usize = 64;

/// Sums, whose rows begin with a cache line: no row of a tile is stored into two lines then.
#[repr(align(64))]
struct Sums([MaybeUninit<f32>; ROWS_MAX * PANEL]);

impl Sums {
    fn new() -> Self {
        Self([MaybeUninit::uninit(); ROWS_MAX * PANEL])
    }
}

/// Rows to multiply: `count` from `from` on.
#[derive(Clone, Copy)]
struct Rows<'a> {
    x: &'a Inputs,
    from: usize,
    count: usize,
}
