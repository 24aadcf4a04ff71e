//! How the weights of linear layers are laid out, once, at load.

use candle_core::{DType, Tensor};
use half::bf16;

use super::blocks::{Block, BlockPanels};
use super::layout::{PANEL, place};
use super::matrix::{Linear, Panels};
use crate::arena::{Arena, Slab};
use crate::arithmetic::Arithmetic;
use crate::error::ModelError;
use crate::kernels::interleave;

/// Packs the layers of a model, for one arithmetic.
pub(crate) struct Packer {
    arena: Arena,
    arithmetic: Arithmetic,
}

/// One output of a packed layer: row `row` of the matrix `source`.
#[derive(Clone, Copy)]
struct OutputRow {
    source: usize,
    row: usize,
}

impl Packer {
    pub(crate) fn new(arithmetic: Arithmetic) -> Self {
        Self { arena: Arena::default(), arithmetic }
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
        let inputs = weights[0].dims2()?.1;
        let len = order.len().div_ceil(PANEL) * PANEL * inputs;
        let stored_in_bf16 = weights.iter().all(|w| w.dtype() == DType::BF16);
        let panels = match self.arithmetic {
            Arithmetic::F32 if stored_in_bf16 => {
                let rows = weights.iter().map(|w| w.flatten_all()?.to_vec1::<bf16>()).collect::<Result<Vec<_>, _>>()?;
                let at = |OutputRow { source, row }, i: usize| rows[source][row * inputs + i].to_bits();
                Panels::Widened(fill(self.arena.slab(len)?, inputs, order, at, interleave))
            }
            Arithmetic::F32 => {
                let rows = floats(weights)?;
                let at = |OutputRow { source, row }, i: usize| rows[source][row * inputs + i];
                Panels::F32(fill(self.arena.slab(len)?, inputs, order, at, |o| o))
            }
            Arithmetic::Bf16 => Panels::Tiles(self.blocks(weights, order)?),
            Arithmetic::Int8 => Panels::Q8(self.blocks(weights, order)?),
            Arithmetic::Int8Q4 => Panels::Q4(self.blocks(weights, order)?),
        };
        Ok(Linear { inputs, outputs: order.len(), panels })
    }

    /// Rounds weights into blocks.
    fn blocks<B: Block>(
        &mut self,
        weights: &[&Tensor],
        order: &[Option<OutputRow>],
    ) -> Result<BlockPanels<B>, ModelError> {
        let (inputs, rows) = (weights[0].dims2()?.1, floats(weights)?);
        let mut panels = BlockPanels::new(&mut self.arena, inputs, order.len())?;
        for (o, source) in order.iter().enumerate() {
            let Some(OutputRow { source, row }) = *source else { continue };
            panels.set(o, &rows[source][row * inputs..][..inputs]);
        }
        Ok(panels)
    }
}

/// The elements of some matrices, row by row.
fn floats(weights: &[&Tensor]) -> Result<Vec<Vec<f32>>, ModelError> {
    let to_f32 = |w: &&Tensor| Ok(w.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?);
    weights.iter().map(to_f32).collect()
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
