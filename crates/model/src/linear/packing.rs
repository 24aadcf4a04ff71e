//! How the weights of linear layers are laid out, once, at load.

use std::thread::available_parallelism;

use candle_core::{DType, Error, Layout, Storage, Tensor, WithDType};
use half::bf16;
use parking_lot::RwLockReadGuard;

use super::blocks::{self, BlockPanels};
use super::layout::{PAIR, PANEL};
use super::matrix::{Linear, Panels};
use crate::arena::{Arena, Number, Slab};
use crate::arithmetic::Arithmetic;
use crate::disjoint::Disjoint;
use crate::error::ModelError;
use crate::kernels::interleave;
use crate::pool::Pool;

/// Inputs of all outputs of a pair that are laid out before the next ones: what is written stays in the nearest cache.
const INPUTS_AT_ONCE: usize = 64;

/// Packs the layers of a model, for one arithmetic, on all processors.
pub(crate) struct Packer {
    arena: Arena,
    arithmetic: Arithmetic,
    pool: Pool,
}

/// One output of a packed layer: row `row` of the matrix `source`.
#[derive(Clone, Copy)]
struct OutputRow {
    source: usize,
    row: usize,
}

impl Packer {
    pub(crate) fn new(arithmetic: Arithmetic) -> Self {
        let pool = Pool::new(available_parallelism().map_or(1, usize::from));
        Self { arena: Arena::default(), arithmetic, pool }
    }

    /// Packs one matrix (out, in).
    pub(crate) fn pack(&mut self, weight: &Tensor) -> Result<Linear, ModelError> {
        self.stack(&[weight])
    }

    /// Packs several matrices of one input width, their outputs one after the other.
    pub(crate) fn stack(&mut self, weights: &[&Tensor]) -> Result<Linear, ModelError> {
        let mut order = Vec::new();
        for (source, weight) in weights.iter().enumerate() {
            order.extend((0..weight.dims2()?.0).map(|row| Some(OutputRow { source, row })));
        }
        self.pack_rows(weights, &order)
    }

    /// Packs two matrices of one shape so that every panel holds half a panel of each: its outputs can be combined
    /// (a gate with what it gates) by the task that computes them.
    pub(crate) fn pair(&mut self, first: &Tensor, second: &Tensor) -> Result<Linear, ModelError> {
        let (rows, half) = (first.dims2()?.0, PANEL / 2);
        let within = |row: usize| (row < rows).then_some(row);
        let order: Vec<Option<OutputRow>> = (0..rows.div_ceil(half) * PANEL)
            .map(|o| within(o / PANEL * half + o % half).map(|row| OutputRow { source: o / half % 2, row }))
            .collect();
        self.pack_rows(&[first, second], &order)
    }

    fn pack_rows(&mut self, weights: &[&Tensor], order: &[Option<OutputRow>]) -> Result<Linear, ModelError> {
        let (inputs, outputs) = (weights[0].dims2()?.1, order.len());
        let len = outputs.div_ceil(PANEL) * PANEL * inputs;
        let stored_in_bf16 = weights.iter().all(|w| w.dtype() == DType::BF16);
        let dtype = if stored_in_bf16 { DType::BF16 } else { DType::F32 };
        let weights = weights.iter().map(|w| w.to_dtype(dtype)?.contiguous()).collect::<Result<Vec<_>, _>>()?;
        let stored: Vec<_> = weights.iter().map(Tensor::storage_and_layout).collect();
        let (arena, pool) = (&mut self.arena, &mut self.pool);
        let row = || rounded_rows(&stored, stored_in_bf16, inputs, order);
        let panels = match self.arithmetic {
            Arithmetic::F32 if stored_in_bf16 => {
                let rows = Rows { matrices: elements::<bf16>(&stored)?, inputs, order };
                Panels::Widened(rows.fill(pool, arena.slab(len)?, bf16::to_bits, interleave))
            }
            Arithmetic::F32 => {
                let rows = Rows { matrices: elements::<f32>(&stored)?, inputs, order };
                Panels::F32(rows.fill(pool, arena.slab(len)?, |weight| weight, |output| output))
            }
            Arithmetic::Bf16 => Panels::Tiles(BlockPanels::new(arena, inputs, outputs)?.filled(pool, &*row()?)),
            Arithmetic::Int8 => Panels::Q8(BlockPanels::new(arena, inputs, outputs)?.filled(pool, &*row()?)),
            Arithmetic::Int8Q4 => Panels::Q4(BlockPanels::new(arena, inputs, outputs)?.filled(pool, &*row()?)),
        };
        Ok(Linear { inputs, outputs, panels })
    }
}

/// What writes the weights of an output of matrices that are stored in bf16, or else in f32.
fn rounded_rows<'a>(
    stored: &'a [Stored<'_>],
    in_bf16: bool,
    inputs: usize,
    order: &'a [Option<OutputRow>],
) -> Result<Box<blocks::Row<'a>>, Error> {
    if in_bf16 {
        let rows = Rows { matrices: elements::<bf16>(stored)?, inputs, order };
        Ok(Box::new(move |output, out| rows.copy(output, out, bf16::to_f32)))
    } else {
        let rows = Rows { matrices: elements::<f32>(stored)?, inputs, order };
        Ok(Box::new(move |output, out| rows.copy(output, out, |weight| weight)))
    }
}

/// A tensor's memory, kept readable, and where in it the tensor lies.
type Stored<'a> = (RwLockReadGuard<'a, Storage>, &'a Layout);

/// The elements of matrices, row by row, where they lie in memory.
fn elements<'a, T: WithDType>(stored: &'a [Stored<'_>]) -> Result<Vec<&'a [T]>, Error> {
    let of = |(storage, layout): &'a Stored<'_>| match &**storage {
        Storage::Cpu(storage) => Ok(&storage.as_slice()?[layout.start_offset()..]),
        _ => Err(Error::Msg("weights are packed from the processor's memory".to_owned())),
    };
    stored.iter().map(of).collect()
}

/// The rows of some matrices in the order of a layer's outputs.
struct Rows<'a, S> {
    matrices: Vec<&'a [S]>,
    inputs: usize,
    order: &'a [Option<OutputRow>],
}

impl<S: Copy + Sync> Rows<'_, S> {
    /// The weights of an output; none where there is none.
    fn row(&self, output: usize) -> Option<&[S]> {
        let OutputRow { source, row } = (*self.order.get(output)?)?;
        Some(&self.matrices[source][row * self.inputs..][..self.inputs])
    }

    /// Copies the weights of an output; says whether there is one.
    fn copy(&self, output: usize, out: &mut [f32], convert: impl Fn(S) -> f32) -> bool {
        let row = self.row(output);
        row.iter().for_each(|row| out.iter_mut().zip(*row).for_each(|(out, weight)| *out = convert(*weight)));
        row.is_some()
    }

    /// Lays out the panels in zeroed memory: `slot` gives the place of an output among all outputs of an input.
    fn fill<T: Number + Send>(
        &self,
        pool: &mut Pool,
        mut slab: Slab<T>,
        convert: impl Fn(S) -> T + Sync,
        slot: impl Fn(usize) -> usize + Sync,
    ) -> Slab<T> {
        let len = PAIR * self.inputs;
        let packed = Disjoint::new(slab.as_mut_slice());
        pool.run(self.order.len().div_ceil(PAIR), &|pair| {
            // SAFETY: each pair of vectors belongs to one task.
            let (inputs, _) = unsafe { packed.slice(pair * len, len) }.as_chunks_mut::<PAIR>();
            for (from, inputs) in inputs.chunks_mut(INPUTS_AT_ONCE).enumerate() {
                for output in pair * PAIR..(pair + 1) * PAIR {
                    let Some(row) = self.row(output) else { continue };
                    let (row, slot) = (&row[from * INPUTS_AT_ONCE..], slot(output) % PAIR);
                    inputs.iter_mut().zip(row).for_each(|(outputs, weight)| outputs[slot] = convert(*weight));
                }
            }
        });
        slab
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use candle_core::Device;

    use super::*;

    /// A matrix of numbers of 8 bits, which every type of weights holds.
    fn matrix(outputs: usize, inputs: usize, sign: f32) -> Tensor {
        let weight = |at: usize| sign * ((at / inputs % 8) as f32 + (at % inputs % 32) as f32 / 32.0);
        Tensor::from_iter((0..outputs * inputs).map(weight), &Device::Cpu).unwrap().reshape((outputs, inputs)).unwrap()
    }

    fn rows(linear: &Linear) -> Vec<Vec<f32>> {
        let row = |output| {
            let mut row = vec![0.0; linear.inputs()];
            linear.row(output, &mut row);
            row
        };
        (0..linear.outputs()).map(row).collect()
    }

    #[test]
    fn every_output_is_found_again_in_its_place() {
        for (dtype, inputs) in [(DType::F32, 70), (DType::BF16, 70), (DType::F16, 128), (DType::BF16, 1)] {
            let [first, second] = [1.0, -1.0].map(|sign| matrix(67, inputs, sign));
            let expected = [&first, &second].map(|matrix| matrix.to_vec2::<f32>().unwrap());
            let [first, second] = [first, second].map(|matrix| matrix.to_dtype(dtype).unwrap());
            let mut packer = Packer::new(Arithmetic::F32);
            assert_eq!(rows(&packer.stack(&[&first, &second]).unwrap()), expected.concat());
            let pair = rows(&packer.pair(&first, &second).unwrap());
            assert_eq!((&pair[32..64], &pair[64..67]), (&expected[1][..32], &expected[0][32..35]));
            assert_eq!((&pair[128 + 3], &pair[128 + 32]), (&vec![0.0; inputs], &expected[1][64]));
        }
    }
}
