//! Asking for weights before they are used.
//!
//! Who takes weights as fast as memory hands them out is served best by the processor's own prefetcher. Who takes longer
//! over each weight leaves it behind: it does not look far ahead of what is read now, and nothing is fetched while the
//! processor's window is full of products. So whoever loads a cache line asks for the one a fixed distance further on. Asked
//! for many at once, lines keep off what is read at the time: see docs/benchmarks.md, "Lines asked for one by one".

/// Which products ask for weights, and how early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    /// The fewest rows that take longer over a weight than memory does.
    pub(crate) rows_min: usize,
    /// How many bytes ahead of its use a weight is asked for: what is used within the latency of memory, some 250 ns. It
    /// waits in the second-level cache, as the nearest one is full of inputs and sums.
    pub(crate) bytes: usize,
}

impl Ahead {
    /// Where fewer rows take weights faster than memory hands them out. From 8 to 128 KB the time is the same: see
    /// docs/benchmarks.md, "Weights that wait in the second-level cache".
    pub(crate) const USUAL: Self = Self { rows_min: 4, bytes: 16 * 1024 };

    /// How early so many rows ask; none if they do not.
    #[inline(always)]
    pub(super) fn of_rows(self, rows: usize) -> Option<usize> {
        (rows >= self.rows_min).then_some(self.bytes)
    }
}

/// Bytes that memory hands out at a time.
pub(super) const CACHE_LINE: usize = 64;
