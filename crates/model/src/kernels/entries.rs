//! The entry points of one instruction set.

use super::bf16_kernels::{Bf16Kernels, Bf16Order};
use super::blocks::BlockProduct;
use super::byte_values::ByteValues;
use super::int8::InputGroup;
use super::rounding::{GroupsAt, Unrounded};
use super::simd::Product;
use crate::arithmetic::Arithmetic;

/// The kernels of one instruction set.
pub(crate) struct Kernels {
    /// `amx`, `avx512bf16`, `avx512vnni`, `avx512`, `avxvnni`, `avx2`, `neon-dots`, `neon` or `portable`.
    pub(crate) name: &'static str,
    pub(super) tiles: Bf16Kernels,
    pub(super) dots: Bf16Kernels,
    pub(super) product_f32: unsafe fn(Product<f32>),
    pub(super) product_widened: unsafe fn(Product<u16>),
    pub(super) add_byte_values: unsafe fn(&ByteValues<'_>),
    pub(super) product_q8: unsafe fn(BlockProduct<InputGroup>),
    pub(super) product_q4: unsafe fn(BlockProduct<InputGroup>),
    pub(super) round_to_int8: unsafe fn(&Unrounded<'_>, &GroupsAt),
    pub(super) rms_norm: unsafe fn(&[f32], &[f32], f32, &mut [f32]),
    pub(super) layer_norm: unsafe fn(&[f32], &[f32], f32, &mut [f32]),
    pub(super) softmax_terms: unsafe fn(&mut [f32]) -> f32,
    pub(super) scale: unsafe fn(&mut [f32], f32),
    pub(super) add: unsafe fn(&mut [f32], &[f32]),
    pub(super) rotate: unsafe fn(&mut [f32], &[f32], &[f32]),
    pub(super) silu_mul: unsafe fn(&mut [f32], usize),
    pub(super) read: unsafe fn(&[f32], usize) -> f32,
    pub(super) multiply_adds: unsafe fn(usize) -> f32,
}

/// The name of the table that multiplies tiles.
pub(super) const AMX_NAME: &str = "amx";

/// The name of the table with dot products of bf16.
pub(super) const BF16_NAME: &str = "avx512bf16";

/// The name of the table of plain code.
pub(crate) const PORTABLE_NAME: &str = "portable";

impl Kernels {
    /// The arithmetic of 16-bit floats that this set has instructions for.
    pub(crate) fn arithmetic_of_16_bits(&self) -> Option<Arithmetic> {
        match self.name {
            AMX_NAME => Some(Arithmetic::Bf16),
            BF16_NAME => Some(Arithmetic::Bf16Dot),
            _ => None,
        }
    }

    /// Those of bf16 in an order.
    pub(crate) fn bf16(&self, order: Bf16Order) -> &Bf16Kernels {
        match order {
            Bf16Order::Tiles => &self.tiles,
            Bf16Order::Dots => &self.dots,
        }
    }

    /// See [`super::tile::product`].
    ///
    /// # Safety
    /// Every pointer of `p` is valid for the extent that its row counts and strides give.
    pub(crate) unsafe fn product_f32(&self, p: Product<f32>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_f32)(p) }
    }

    /// See [`super::tile::product`]; weights are interleaved bf16.
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn product_widened(&self, p: Product<u16>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_widened)(p) }
    }

    /// See [`super::byte_values::add`].
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn add_byte_values(&self, p: &ByteValues<'_>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.add_byte_values)(p) }
    }

    /// See [`super::int8::Q8`].
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn product_q8(&self, p: BlockProduct<InputGroup>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_q8)(p) }
    }

    /// See [`super::int8::Q4`].
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn product_q4(&self, p: BlockProduct<InputGroup>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_q4)(p) }
    }

    /// See [`super::rounding::round`].
    ///
    /// # Safety
    /// There is room for each group of each row.
    ///
    /// # Panics
    /// When `rows` has fewer numbers than it says.
    pub(crate) unsafe fn round_to_int8(&self, rows: Unrounded<'_>, to: GroupsAt) {
        rows.check();
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.round_to_int8)(&rows, &to) }
    }

    /// See [`super::elementwise::rms_norm`].
    pub(crate) fn rms_norm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.rms_norm)(x, weight, eps, out) }
    }

    /// See [`super::elementwise::layer_norm`].
    pub(crate) fn layer_norm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.layer_norm)(x, weight, eps, out) }
    }

    /// See [`super::elementwise::softmax_terms`].
    pub(crate) fn softmax_terms(&self, scores: &mut [f32]) -> f32 {
        // SAFETY: the set was detected.
        unsafe { (self.softmax_terms)(scores) }
    }

    /// See [`super::elementwise::scale`].
    pub(crate) fn scale(&self, x: &mut [f32], factor: f32) {
        // SAFETY: the set was detected.
        unsafe { (self.scale)(x, factor) }
    }

    /// See [`super::elementwise::add`].
    pub(crate) fn add(&self, x: &mut [f32], y: &[f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.add)(x, y) }
    }

    /// See [`super::elementwise::rotate`].
    pub(crate) fn rotate(&self, points: &mut [f32], cos: &[f32], sin: &[f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.rotate)(points, cos, sin) }
    }

    /// See [`super::elementwise::silu_mul`].
    pub(crate) fn silu_mul(&self, rows: &mut [f32], width: usize) {
        // SAFETY: the set was detected.
        unsafe { (self.silu_mul)(rows, width) }
    }

    /// See [`super::elementwise::read`].
    pub(crate) fn read(&self, x: &[f32], rows: usize) -> f32 {
        // SAFETY: the set was detected.
        unsafe { (self.read)(x, rows) }
    }

    /// See [`super::elementwise::multiply_adds`].
    pub(crate) fn multiply_adds(&self, rounds: usize) -> f32 {
        // SAFETY: the set was detected.
        unsafe { (self.multiply_adds)(rounds) }
    }
}
