//! Streaming (non-temporal) stores, for cache lines that one thread writes and others read.
//!
//! A line that another processor has read is in its cache, too, and its copy there has to go before the line is written
//! again: 6 to 9 ns a line where both processors share a cache, 35 where they do not, even if the line was prefetched for
//! writing. A streaming store takes 4 ns either way, and the line is then read from memory. See docs/benchmarks.md, "Lines
//! that are handed over".

use super::bf16::Bf16Line;

/// Copies a line around the caches. Other threads may read it after [`finish`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn copy_line(from: &Bf16Line, to: &mut Bf16Line) {
    use std::arch::x86_64::{_mm_load_ps, _mm_stream_ps};
    let (from, to) = ((&raw const *from).cast::<f32>(), (&raw mut *to).cast::<f32>());
    for quarter in (0..size_of::<Bf16Line>() / size_of::<f32>()).step_by(4) {
        // SAFETY: part of a line, as lines are aligned; every processor of this kind has the instructions.
        unsafe { _mm_stream_ps(to.add(quarter), _mm_load_ps(from.add(quarter))) };
    }
}

/// Copies a line: no streaming stores are used on this kind of processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn copy_line(from: &Bf16Line, to: &mut Bf16Line) {
    *to = *from;
}

/// Makes this thread's streaming stores visible before whatever it stores next.
#[inline(always)]
pub(crate) fn finish() {
    // SAFETY: every processor of this kind has the instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bf16Order, Kernels};
    use super::*;

    #[test]
    fn another_thread_finds_the_lines_that_were_copied() {
        let values: Vec<f32> = (0..32).map(|value| value as f32).collect();
        let kernels = Kernels::detect().bf16(Bf16Order::Dots);
        let mut lines = [Bf16Line::ZERO; Bf16Line::MOST];
        kernels.round(&values, &mut lines[..kernels.lines]);
        let mut copies = [Bf16Line::ZERO; Bf16Line::MOST];
        lines.iter().zip(&mut copies).for_each(|(from, to)| copy_line(from, to));
        finish();
        let found = std::thread::scope(|scope| scope.spawn(|| copies.to_vec()).join());
        assert_eq!(found.ok(), Some(lines.to_vec()));
    }
}
