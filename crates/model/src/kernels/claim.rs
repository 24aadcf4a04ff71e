//! Claiming cache lines: a thread that reads what another one wrote, and will write again, takes its lines over whole.
//!
//! A line that is merely read stays with the one that wrote it, too, which then waits to write it again until it is gone
//! from here: 6 to 9 ns where both share a cache, 35 where they do not. Only for lines that one thread reads. See
//! docs/benchmarks.md, "Lines that are handed over".

/// Claims the lines of numbers, by a hint that processors without it skip.
#[inline(always)]
pub(crate) fn claim(numbers: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in numbers.chunks(super::ahead::CACHE_LINE / size_of::<f32>()) {
        // SAFETY: reads and writes nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line.as_ptr(), options(readonly, nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = numbers;
}
