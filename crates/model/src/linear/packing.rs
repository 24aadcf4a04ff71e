//! How the weights of linear layers are laid out, once, at load.

use std::thread::available_parallelism;

use espalier_gguf::TensorType;

use super::blocks::BlockPanels;
use super::layout::{PAIR, PANEL};
use super::matrix::{Linear, Panels};
use super::stored_rows::StoredRows;
use crate::arena::{Arena, Number, Slab};
use crate::arithmetic::{Arithmetic, WeightFormat};
use crate::disjoint::Disjoint;
use crate::error::ModelError;
use crate::kernels::{Bf16Order, interleave};
use crate::pool::Pool;
use crate::raw_matrix::{PIECE, RawMatrix};

/// Packs the layers of a model, for one arithmetic, on all processors, which read what is stored as they go.
pub(crate) struct Packer {
    arena: Arena,
    arithmetic: Arithmetic,
    format: WeightFormat,
    pool: Pool,
}

impl Packer {
    pub(crate) fn new(arithmetic: Arithmetic, format: WeightFormat) -> Self {
        let pool = Pool::new(available_parallelism().map_or(1, usize::from));
        Self { arena: Arena::default(), arithmetic, format, pool }
    }

    /// Packs one matrix (out, in).
    pub(crate) fn pack(&mut self, weight: &RawMatrix) -> Result<Linear, ModelError> {
        self.stack(&[weight])
    }

    /// Packs several matrices of one input width, their outputs one after the other.
    pub(crate) fn stack(&mut self, weights: &[&RawMatrix]) -> Result<Linear, ModelError> {
        self.pack_rows(&StoredRows::stacked(weights))
    }

    /// Packs two matrices of one shape so that every panel holds half a panel of each: its outputs can be combined
    /// (a gate with what it gates) by the task that computes them.
    pub(crate) fn pair(&mut self, first: &RawMatrix, second: &RawMatrix) -> Result<Linear, ModelError> {
        self.pack_rows(&StoredRows::paired(first, second))
    }

    /// Packs rows. Matrices that share a layer are kept in as many bits as the finest of them.
    fn pack_rows(&mut self, rows: &StoredRows<'_>) -> Result<Linear, ModelError> {
        let (inputs, outputs) = (rows.inputs(), rows.outputs());
        let len = outputs.div_ceil(PANEL) * PANEL * inputs;
        let bf16 = self.format == WeightFormat::Stored && rows.all(|matrix| matrix.kind() == TensorType::BF16);
        let (arena, pool) = (&mut self.arena, &mut self.pool);
        let panels = match self.arithmetic {
            Arithmetic::F32 if bf16 => {
                let upper_half = |weight: f32| (weight.to_bits() >> 16) as u16;
                Panels::Widened(fill(pool, arena.slab(len)?, rows, upper_half, interleave))
            }
            Arithmetic::F32 => Panels::F32(fill(pool, arena.slab(len)?, rows, |weight| weight, |output| output)),
            Arithmetic::Bf16 => {
                Panels::Bf16(Bf16Order::Tiles, BlockPanels::new(arena, inputs, outputs)?.filled(pool, rows))
            }
            Arithmetic::Bf16Dot => {
                Panels::Bf16(Bf16Order::Dots, BlockPanels::new(arena, inputs, outputs)?.filled(pool, rows))
            }
            Arithmetic::Int8Q4 if rows.all(|matrix| !matrix.is_fine()) => {
                Panels::Q4(BlockPanels::new(arena, inputs, outputs)?.filled(pool, rows))
            }
            Arithmetic::Int8 | Arithmetic::Int8Q4 => {
                Panels::Q8(BlockPanels::new(arena, inputs, outputs)?.filled(pool, rows))
            }
        };
        Ok(Linear { inputs, outputs, panels })
    }
}

/// Lays out panels in zeroed memory: `slot` gives the place of an output among all outputs of an input.
fn fill<T: Number + Send>(
    pool: &mut Pool,
    mut slab: Slab<T>,
    rows: &StoredRows<'_>,
    convert: impl Fn(f32) -> T + Sync,
    slot: impl Fn(usize) -> usize + Sync,
) -> Slab<T> {
    let len = PAIR * rows.inputs();
    let packed = Disjoint::new(slab.as_mut_slice());
    pool.run(rows.outputs().div_ceil(PAIR), &|pair| {
        // SAFETY: each pair of vectors belongs to one task.
        let (inputs, _) = unsafe { packed.slice(pair * len, len) }.as_chunks_mut::<PAIR>();
        let mut weights = [0.0; PIECE];
        for (at, inputs) in inputs.chunks_mut(PIECE).enumerate() {
            for output in pair * PAIR..(pair + 1) * PAIR {
                let Some(stored) = rows.piece(output, at * PIECE) else { continue };
                let (weights, slot) = (stored.read(&mut weights), slot(output) % PAIR);
                inputs.iter_mut().zip(weights).for_each(|(outputs, weight)| outputs[slot] = convert(*weight));
            }
        }
    });
    slab
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;

    /// A matrix of numbers of 8 bits, which every type of weights holds.
    fn matrix(kind: TensorType, [outputs, inputs]: [usize; 2], sign: f32) -> RawMatrix {
        let weight = |at: usize| sign * ((at / inputs % 8) as f32 + (at % inputs % 32) as f32 / 32.0);
        let weights: Vec<f32> = (0..outputs * inputs).map(weight).collect();
        RawMatrix::new(Arc::new(kind.from_f32(&weights).unwrap()), 0, kind, [outputs, inputs])
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
        use TensorType::{BF16, F16, F32};
        for (kind, inputs) in [(F32, 70), (BF16, 70), (F16, 128), (BF16, 1), (BF16, 600)] {
            let [first, second] = [1.0, -1.0].map(|sign| matrix(kind, [67, inputs], sign));
            let expected = [&first, &second].map(|matrix| matrix.to_tensor().unwrap().to_vec2::<f32>().unwrap());
            for format in [WeightFormat::Stored, WeightFormat::F32] {
                let mut packer = Packer::new(Arithmetic::F32, format);
                assert_eq!(rows(&packer.stack(&[&first, &second]).unwrap()), expected.concat());
                let pair = packer.pair(&first, &second).unwrap();
                let bytes = if kind == BF16 && format == WeightFormat::Stored { 2 } else { 4 };
                assert_eq!(pair.bytes(), 3 * PANEL * inputs * bytes);
                let pair = rows(&pair);
                assert_eq!((&pair[32..64], &pair[64..67]), (&expected[1][..32], &expected[0][32..35]));
                assert_eq!((&pair[128 + 3], &pair[128 + 32]), (&vec![0.0; inputs], &expected[1][64]));
            }
        }
    }
}
