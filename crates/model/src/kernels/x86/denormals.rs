//! What the processor does with numbers too small to be normal ones.

use std::arch::asm;

use super::super::bf16::{self, Bf16, Floats, Order};
use super::super::blocks::BlockProduct;
use super::super::values::{self, ValueGroup};

/// In the control register: such inputs count as zero, such results become zero.
const INPUTS_AND_RESULTS: u32 = 1 << 6 | 1 << 15;

/// [`bf16::product`] with numbers that are too small as zero.
#[inline(always)]
pub(in super::super) unsafe fn product_bf16<S: Bf16, O: Order>(p: BlockProduct<Floats>) {
    // SAFETY: passed on to the caller. Between the two nothing but kernels compute with floats.
    unsafe {
        let before = to_zero();
        bf16::product::<S, O>(p);
        restore(before);
    }
}

/// [`values::add`] with numbers that are too small as zero.
#[inline(always)]
pub(in super::super) unsafe fn add_values<S: Bf16, O: Order>(p: &ValueGroup<'_>) {
    // SAFETY: as above.
    unsafe {
        let before = to_zero();
        values::add::<S, O>(p);
        restore(before);
    }
}

/// From here on they are zero. Gives what was set before.
///
/// # Safety
/// Until [`restore`], floats are computed by the intrinsics of kernels alone: the compiler does not know of this.
#[inline(always)]
unsafe fn to_zero() -> u32 {
    let mut before = 0_u32;
    // SAFETY: writes the four bytes.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack, preserves_flags)) };
    // SAFETY: the caller's promise.
    unsafe { restore(before | INPUTS_AND_RESULTS) };
    before
}

/// Sets what [`to_zero`] found.
///
/// # Safety
/// `control` is valid for the register.
#[inline(always)]
unsafe fn restore(control: u32) {
    // SAFETY: reads the four bytes.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack)) };
}
