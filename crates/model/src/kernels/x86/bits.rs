//! Groups of inputs as bf16, for sets that multiply those.

use super::super::bf16::{self, Bf16Group};
use super::super::blocks::GROUP;

/// As bf16.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(in super::super) struct Bits([u16; GROUP]);

impl Bf16Group for Bits {
    const ZERO: Self = Self([0; GROUP]);

    #[inline(always)]
    fn set(&mut self, values: &[f32]) {
        bf16::set(&mut self.0, values, bf16::round);
    }
}

impl Bits {
    /// The whole group.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u16 {
        self.0.as_mut_ptr()
    }
}
