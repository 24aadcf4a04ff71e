//! Claiming cache lines: a thread that reads what another one wrote, and is going to write again, takes the lines for itself.
//!
//! Reading alone leaves a copy of a line with both. Before it is written again the reader's copy has to go, for which the
//! writer waits 6 to 9 ns where the two share a cache, and 35 where they do not, even if it prefetches the line. A line that
//! the reader claimed goes back whole. Only for lines that a single thread reads. See docs/benchmarks.md, "Lines that are
//! handed over".

/// Claims the lines of numbers: a hint, which processors that do not know it skip.
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
