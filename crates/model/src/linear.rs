//! Linear layers, packed once at load.
//!
//! The weight matrix (out, in) is cut into panels of [`PANEL`] outputs, a panel into pairs of vectors; a pair holds, for
//! each input, the weights of its [`PAIR`] outputs side by side. One pass over the panels serves any number of rows
//! and reads every weight once, from front to back.

use std::mem::MaybeUninit;

use candle_core::{DType, Tensor};
use half::bf16;

use crate::arena::{Arena, Slab};
use crate::error::ModelError;
use crate::kernels::{Kernels, LANES, Product, interleave};
use crate::pool::Pool;

/// Outputs of one panel.
pub(crate) const PANEL: usize = 64;

/// Outputs of one pair of vectors.
const PAIR: usize = 2 * LANES;

/// One output of a packed layer: row `row` of the matrix `source`.
#[derive(Clone, Copy)]
struct OutputRow {
    source: usize,
    row: usize,
}

/// What a layer is computed with.
pub(crate) struct Compute<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) kernels: &'a Kernels,
}

/// A packed weight matrix without bias.
pub(crate) struct Linear {
    inputs: usize,
    outputs: usize,
    panels: Panels,
}

enum Panels {
    F32(Slab<f32>),
    Bf16(Slab<u16>),
}

impl Linear {
    /// Packs one matrix (out, in).
    pub(crate) fn pack(arena: &mut Arena, weight: &Tensor) -> Result<Self, ModelError> {
        Self::stack(arena, &[weight])
    }

    /// Packs several matrices of one input width, their outputs one after the other.
    pub(crate) fn stack(arena: &mut Arena, weights: &[&Tensor]) -> Result<Self, ModelError> {
        let mut order = Vec::new();
        for (source, weight) in weights.iter().enumerate() {
            order.extend((0..weight.dims2()?.0).map(|row| Some(OutputRow { source, row })));
        }
        Self::pack_rows(arena, weights, &order)
    }

    /// Packs two matrices of one shape so that every panel holds half a panel of each: its outputs can be combined
    /// (a gate with what it gates) by the task that computes them.
    pub(crate) fn pair(arena: &mut Arena, first: &Tensor, second: &Tensor) -> Result<Self, ModelError> {
        let (rows, half) = (first.dims2()?.0, PANEL / 2);
        let within = |row: usize| (row < rows).then_some(row);
        let order: Vec<Option<OutputRow>> = (0..rows.div_ceil(half) * PANEL)
            .map(|o| within(o / PANEL * half + o % half).map(|row| OutputRow { source: o / half % 2, row }))
            .collect();
        Self::pack_rows(arena, &[first, second], &order)
    }

    fn pack_rows(arena: &mut Arena, weights: &[&Tensor], order: &[Option<OutputRow>]) -> Result<Self, ModelError> {
        let inputs = weights[0].dims2()?.1;
        let len = order.len().div_ceil(PANEL) * PANEL * inputs;
        let panels = if weights.iter().all(|w| w.dtype() == DType::BF16) {
            let rows = weights
                .iter()
                .map(|w| w.flatten_all()?.to_vec1::<bf16>())
                .collect::<candle_core::Result<Vec<Vec<bf16>>>>()?;
            let at = |OutputRow { source, row }, i: usize| rows[source][row * inputs + i].to_bits();
            Panels::Bf16(fill(arena.slab(len)?, inputs, order, at, interleave))
        } else {
            let to_f32 = |w: &&Tensor| w.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>();
            let rows = weights.iter().map(to_f32).collect::<Result<Vec<_>, _>>()?;
            let at = |OutputRow { source, row }, i: usize| rows[source][row * inputs + i];
            Panels::F32(fill(arena.slab(len)?, inputs, order, at, |o| o))
        };
        Ok(Self { inputs, outputs: order.len(), panels })
    }

    /// Width of a row of input.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Width of a row of output.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Bytes that one forward pass reads.
    pub(crate) fn bytes(&self) -> usize {
        match &self.panels {
            Panels::F32(w) => size_of_val(w.as_slice()),
            Panels::Bf16(w) => size_of_val(w.as_slice()),
        }
    }

    /// Computes `x` (rows, inputs) times the matrix and hands each finished piece to `emit(row, first output,
    /// values)`: at most [`PANEL`] values, possibly from several threads at once, each output once.
    pub(crate) fn forward(&self, compute: Compute<'_>, x: &[f32], emit: &(dyn Fn(usize, usize, &[f32]) + Sync)) {
        self.forward_from(0, compute, x, emit);
    }

    /// The same for the panels from that of output `output` on, whose outputs before it are computed too.
    pub(crate) fn forward_from(
        &self,
        output: usize,
        Compute { pool, kernels }: Compute<'_>,
        x: &[f32],
        emit: &(dyn Fn(usize, usize, &[f32]) + Sync),
    ) {
        let (rows, skipped) = (x.len() / self.inputs, output / PANEL);
        pool.run(self.outputs.div_ceil(PANEL) - skipped, &|panel| {
            let panel = panel + skipped;
            let first = panel * PANEL;
            let width = PANEL.min(self.outputs - first);
            for from in (0..rows).step_by(ROWS_AT_ONCE) {
                let count = ROWS_AT_ONCE.min(rows - from);
                let x = &x[from * self.inputs..(from + count) * self.inputs];
                with_zeros(count * PANEL, |acc| {
                    self.panel(kernels, panel, x, acc);
                    for (r, values) in acc.chunks_exact(PANEL).enumerate() {
                        emit(from + r, first, &values[..width]);
                    }
                });
            }
        });
    }

    /// One panel times some rows of `x`, into rows of [`PANEL`].
    fn panel(&self, kernels: &Kernels, panel: usize, x: &[f32], acc: &mut [f32]) {
        let from = panel * PANEL * self.inputs;
        // SAFETY: `x` holds whole rows, `acc` a row of PANEL for each, the slice below the whole panel.
        unsafe {
            match &self.panels {
                Panels::F32(w) => kernels.product_f32(self.product(x, &w.as_slice()[from..], acc)),
                Panels::Bf16(w) => kernels.product_bf16(self.product(x, &w.as_slice()[from..], acc)),
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

    /// The weights of output `o`, as stored: row `o` of an embedding that shares its matrix with the head.
    pub(crate) fn row(&self, o: usize, out: &mut [f32]) {
        match &self.panels {
            Panels::F32(w) => {
                let at = |i: usize| w.as_slice()[place(self.inputs, o, i)];
                out.iter_mut().enumerate().for_each(|(i, v)| *v = at(i));
            }
            Panels::Bf16(w) => {
                let at = |i: usize| w.as_slice()[place(self.inputs, interleave(o), i)];
                out.iter_mut().enumerate().for_each(|(i, v)| *v = bf16::from_bits(at(i)).to_f32());
            }
        }
    }
}

/// Rows that one task multiplies before it hands them on: a multiple of every register tile's height.
const ROWS_AT_ONCE: usize = 24;

/// Calls `body` with `len` zeros on the stack, at most [`ROWS_AT_ONCE`] rows of a panel; only those are cleared.
fn with_zeros(len: usize, body: impl FnOnce(&mut [f32])) {
    let mut acc = [MaybeUninit::<f32>::uninit(); ROWS_AT_ONCE * PANEL];
    let acc = &mut acc[..len];
    acc.fill(MaybeUninit::new(0.0));
    // SAFETY: all elements were just written.
    body(unsafe { acc.assume_init_mut() });
}

/// Where the weight of output `o` for input `i` lies.
fn place(inputs: usize, o: usize, i: usize) -> usize {
    (o / PAIR * inputs + i) * PAIR + o % PAIR
}

/// Lays out the panels in zeroed memory: `at` gives a weight, `slot` the place of an output among all outputs of an
/// input.
fn fill<T: Copy>(
    mut slab: Slab<T>,
    inputs: usize,
    order: &[Option<OutputRow>],
    at: impl Fn(OutputRow, usize) -> T,
    slot: impl Fn(usize) -> usize,
) -> Slab<T> {
    let packed = slab.as_mut_slice();
    for (o, source) in order.iter().enumerate() {
        let Some(source) = *source else { continue };
        let slot = slot(o);
        (0..inputs).for_each(|i| packed[place(inputs, slot, i)] = at(source, i));
    }
    slab
}
