//! Linear layers, packed once at load.
//!
//! The weight matrix (out, in) is cut into panels of [`PANEL`] outputs. One pass over the panels serves any number of rows
//! and reads every weight once, from front to back. In f32 arithmetic a panel is cut into pairs of vectors; a pair holds,
//! for each input, the weights of its [`PAIR`] outputs side by side. In other arithmetics it lies in [`blocks`].

mod blocks;
mod int8;
mod layout;
mod matrix;
mod packing;
mod rounding;
mod stored_rows;
#[cfg(test)]
mod stored_tests;
#[cfg(test)]
mod tests;
mod tiles;

use std::mem::MaybeUninit;

use self::layout::PAIR;
use self::matrix::Panels;
use self::rounding::Rows;
use crate::kernels::{Kernels, LANES, Product};
use crate::pool::Pool;

pub(crate) use self::layout::PANEL;
pub(crate) use self::matrix::Linear;
pub(crate) use self::packing::Packer;
pub(crate) use self::rounding::Rounded;

/// What a layer is computed with.
pub(crate) struct Compute<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) kernels: &'a Kernels,
    /// Where inputs are kept that had to be rounded first.
    pub(crate) rounded: &'a mut Rounded,
}

impl Linear {
    /// Computes `x` (rows, inputs) times the matrix and hands each finished piece to `emit(row, first output,
    /// values)`: at most [`PANEL`] values, possibly from several threads at once, each output once.
    pub(crate) fn forward(&self, compute: Compute<'_>, x: &[f32], emit: &(dyn Fn(usize, usize, &[f32]) + Sync)) {
        self.forward_from(0, compute, x, emit);
    }

    /// The same for the panels from that of output `output` on, whose outputs before it are computed too.
    pub(crate) fn forward_from(
        &self,
        output: usize,
        Compute { pool, kernels, rounded }: Compute<'_>,
        x: &[f32],
        emit: &(dyn Fn(usize, usize, &[f32]) + Sync),
    ) {
        let (rows, skipped) = (x.len() / self.inputs, output / PANEL);
        let unrounded = Rows { x, inputs: self.inputs };
        match self.panels {
            Panels::F32(_) | Panels::Widened(_) => {}
            Panels::Tiles(_) => rounded.keep_for_tiles(pool, kernels, unrounded),
            Panels::Dots(_) => rounded.keep_for_dots(pool, kernels, unrounded),
            Panels::Q8(_) | Panels::Q4(_) => rounded.keep_int8(pool, kernels, unrounded),
        }
        let input = Input { x, rounded, rows, from: 0 };
        let rows_at_once = self.rows_at_once();
        pool.run(self.outputs.div_ceil(PANEL) - skipped, &|panel| {
            let panel = panel + skipped;
            let first = panel * PANEL;
            let width = PANEL.min(self.outputs - first);
            for from in (0..rows).step_by(rows_at_once) {
                let count = rows_at_once.min(rows - from);
                with_zeros(count * PANEL, |acc| {
                    self.panel(kernels, panel, Input { from, ..input }, acc);
                    for (r, values) in acc.chunks_exact(PANEL).enumerate() {
                        emit(from + r, first, &values[..width]);
                    }
                });
            }
        });
    }

    /// Rows that one task multiplies before it hands them on: a multiple of every register tile's height.
    fn rows_at_once(&self) -> usize {
        match self.panels {
            Panels::Tiles(_) => ROWS_MAX,
            _ => 48,
        }
    }

    /// One panel times as many rows as `acc` has room for, into rows of [`PANEL`].
    fn panel(&self, kernels: &Kernels, panel: usize, Input { x, rounded, rows, from }: Input<'_>, acc: &mut [f32]) {
        let (weights, count) = (panel * PANEL * self.inputs, acc.len() / PANEL);
        let x = &x[from * self.inputs..][..count * self.inputs];
        let (int8, bf16) = (rounded.int8(rows, from, count), rounded.bf16(rows, from, count));
        // SAFETY: `x` and what was rounded hold whole rows, `acc` a row of PANEL for each, the slices below whole panels.
        unsafe {
            match &self.panels {
                Panels::F32(w) => kernels.product_f32(self.product(x, &w.as_slice()[weights..], acc)),
                Panels::Widened(w) => kernels.product_widened(self.product(x, &w.as_slice()[weights..], acc)),
                Panels::Tiles(panels) => kernels.product_bf16_tiles(panels.product(panel, &bf16, acc)),
                Panels::Dots(panels) => kernels.product_bf16_dots(panels.product(panel, &bf16, acc)),
                Panels::Q8(panels) => kernels.product_q8(panels.product(panel, &int8, acc)),
                Panels::Q4(panels) => kernels.product_q4(panels.product(panel, &int8, acc)),
            }
        }
    }

    fn product<W>(&self, x: &[f32], w: &[W], acc: &mut [f32]) -> Product<W> {
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
            acc: acc.as_mut_ptr(),
            acc_stride: PANEL,
        }
    }
}

/// Most rows that one task multiplies before it hands them on.
const ROWS_MAX: usize = 64;

/// Sums, whose rows begin with a cache line: no row of a tile is stored into two lines then.
#[repr(align(64))]
struct Aligned([MaybeUninit<f32>; ROWS_MAX * PANEL]);

/// Calls `body` with `len` zeros on the stack, at most [`ROWS_MAX`] rows of a panel; only those are cleared.
fn with_zeros(len: usize, body: impl FnOnce(&mut [f32])) {
    let mut acc = Aligned([MaybeUninit::<f32>::uninit(); ROWS_MAX * PANEL]);
    let acc = &mut acc.0[..len];
    acc.fill(MaybeUninit::new(0.0));
    // SAFETY: all elements were just written.
    body(unsafe { acc.assume_init_mut() });
}

/// Rows to multiply: as they are, and rounded where that is needed.
#[derive(Clone, Copy)]
struct Input<'a> {
    x: &'a [f32],
    rounded: &'a Rounded,
    /// All of them.
    rows: usize,
    /// The first one meant.
    from: usize,
}
