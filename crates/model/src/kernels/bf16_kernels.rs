//! The entry points of one instruction set for bf16 in one order.

use super::bf16::Bf16Line;
use super::blocks::BlockProduct;
use super::values::ValueGroup;

/// In which order products of bf16 are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bf16Order {
    /// That of a matrix unit: see [`super::bf16::Tiles`].
    Tiles,
    /// That of vectors of dot products: see [`super::bf16::Dots`].
    Dots,
}

/// What is computed in that order.
pub(crate) struct Bf16Kernels {
    /// Lines of a group of inputs that [`Self::round`] rounds.
    pub(crate) lines: usize,
    pub(super) product: unsafe fn(BlockProduct<Bf16Line>),
    pub(super) add_values: unsafe fn(&ValueGroup<'_>),
    pub(super) round: unsafe fn(&[f32], &mut [Bf16Line]),
}

impl Bf16Kernels {
    /// See [`super::bf16::product`]; blocks of [`super::TILE_BYTES`], strips in whole multiples of [`super::TILE_STRIPS`].
    ///
    /// # Safety
    /// As for [`super::Kernels::product_f32`].
    pub(crate) unsafe fn product(&self, p: BlockProduct<Bf16Line>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product)(p) }
    }

    /// See [`super::values::add`].
    ///
    /// # Safety
    /// As for [`super::Kernels::product_f32`].
    pub(crate) unsafe fn add_values(&self, p: &ValueGroup<'_>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.add_values)(p) }
    }

    /// Rounds to what [`Self::product`] takes.
    pub(crate) fn round(&self, values: &[f32], lines: &mut [Bf16Line]) {
        // SAFETY: the set was detected.
        unsafe { (self.round)(values, lines) }
    }
}
