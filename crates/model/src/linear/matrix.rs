//! A packed matrix of weights.

use half::bf16;

use super::blocks::BlockPanels;
use super::int8::{Q4, Q8};
use super::layout::place;
use super::tiles::Tile;
use crate::arena::Slab;
use crate::kernels::{Bf16Order, interleave};

/// A packed weight matrix without bias.
pub(crate) struct Linear {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) panels: Panels,
}

/// Its weights, as they are multiplied.
pub(super) enum Panels {
    /// In f32 arithmetic, stored in f32.
    F32(Slab<f32>),
    /// In f32 arithmetic, stored in bf16.
    Widened(Slab<u16>),
    /// In bf16 arithmetic, in an order.
    Bf16(Bf16Order, BlockPanels<Tile>),
    /// In int8 arithmetic.
    Q8(BlockPanels<Q8>),
    /// In int8 arithmetic with weights of 4 bits.
    Q4(BlockPanels<Q4>),
}

impl Linear {
    /// Width of a row of input.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Width of a row of output.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Multiply-adds of one row.
    pub(crate) fn multiply_adds(&self) -> usize {
        self.inputs * self.outputs
    }

    /// Bytes that one forward pass reads.
    pub(crate) fn bytes(&self) -> usize {
        match &self.panels {
            Panels::F32(w) => size_of_val(w.as_slice()),
            Panels::Widened(w) => size_of_val(w.as_slice()),
            Panels::Bf16(_, panels) => panels.bytes(),
            Panels::Q8(panels) => panels.bytes(),
            Panels::Q4(panels) => panels.bytes(),
        }
    }

    /// The weights of output `o`, as stored: row `o` of an embedding that shares its matrix with the head.
    pub(crate) fn row(&self, o: usize, out: &mut [f32]) {
        match &self.panels {
            Panels::F32(w) => {
                let at = |i: usize| w.as_slice()[place(self.inputs, o, i)];
                out.iter_mut().enumerate().for_each(|(i, v)| *v = at(i));
            }
            Panels::Widened(w) => {
                let at = |i: usize| w.as_slice()[place(self.inputs, interleave(o), i)];
                out.iter_mut().enumerate().for_each(|(i, v)| *v = bf16::from_bits(at(i)).to_f32());
            }
            Panels::Bf16(_, panels) => panels.row(o, out),
            Panels::Q8(panels) => panels.row(o, out),
            Panels::Q4(panels) => panels.row(o, out),
        }
    }
}
