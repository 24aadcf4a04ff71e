//! Cache lines that one thread writes and others read.
//!
//! A line that another processor has read is in its cache, too, and its copy there has to go before the line is written
//! again. That takes 6 ns a line where both processors share a cache, and 35 where they do not; to ask for the lines early
//! does not help. A store around the caches takes 4 ns either way, and whoever reads the line then has it from memory. See
//! docs/benchmarks.md, "Lines that are handed over".

use super::bf16::Bf16Line;

/// Copies a line as any memory is copied.
#[inline(always)]
pub(super) fn through_caches(from: &Bf16Line, to: &mut Bf16Line) {
    *to = *from;
}

/// Copies a line around the caches.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn around_caches(from: &Bf16Line, to: &mut Bf16Line) {
    use std::arch::x86_64::{_mm_load_ps, _mm_stream_ps};
    let (from, to) = ((&raw const *from).cast::<f32>(), (&raw mut *to).cast::<f32>());
    for quarter in (0..size_of::<Bf16Line>() / size_of::<f32>()).step_by(4) {
        // SAFETY: part of a line, as lines are aligned; every processor of this kind has the instructions.
        unsafe { _mm_stream_ps(to.add(quarter), _mm_load_ps(from.add(quarter))) };
    }
}

/// Makes lines that went around the caches visible to others before anything that this thread writes from now on.
#[inline(always)]
pub(crate) fn handed_over() {
    // SAFETY: every processor of this kind has the instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kernels;
    use super::*;

    #[test]
    fn another_thread_finds_the_lines_that_were_handed_over() {
        for kernels in Kernels::available() {
            let values: Vec<f32> = (0..32).map(|value| value as f32).collect();
            let mut lines = [Bf16Line::ZERO; Bf16Line::MOST];
            kernels.round_for_dots(&values, &mut lines[..kernels.dot_lines]);
            let mut handed = [Bf16Line::ZERO; Bf16Line::MOST];
            lines.iter().zip(&mut handed).for_each(|(from, to)| kernels.hand_over(from, to));
            handed_over();
            let found = std::thread::scope(|scope| scope.spawn(|| handed.map(|line| line.bytes())).join());
            assert_eq!(found.ok(), Some(lines.map(|line| line.bytes())), "{}", kernels.name);
        }
    }
}
