//! Asking for weights before they are used.
//!
//! Few rows take weights as fast as memory hands them out, and the processor's own prefetcher sees to that best. More rows
//! take longer over each weight, and that prefetcher falls behind: it does not look far ahead of what is read now.

use super::simd::Simd;

/// The fewest rows that take longer over a weight than memory does.
const ROWS_MIN: usize = 4;

/// How many bytes ahead of its use a weight is asked for then. It waits in the second-level cache, as the
/// nearest one is full of inputs and sums. From 8 to 128 KB the time is the same: see docs/benchmarks.md, "Weights that
/// wait in the second-level cache".
const AHEAD: usize = 16 * 1024;

/// Bytes that memory hands out at a time.
pub(super) const CACHE_LINE: usize = 64;

/// Asks for what comes after the `bytes` that are used at `at` now, where enough rows use them.
#[inline(always)]
pub(super) unsafe fn ask<S: Simd>(at: *const u8, bytes: usize, rows: usize) {
    if rows >= ROWS_MIN {
        // SAFETY: any address may be asked for.
        (0..bytes).step_by(CACHE_LINE).for_each(|line| unsafe { S::prefetch(at.wrapping_add(AHEAD + line)) });
    }
}
