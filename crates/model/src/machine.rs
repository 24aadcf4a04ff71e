//! What the machine can do at best: the two figures that bound a forward pass.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::kernels::{CHAINS, LANES};
use crate::workspace::Workspace;

/// Repetitions of a measurement; the best counts, since nothing makes a machine faster than it is.
const RUNS: usize = 7;

/// Pieces that a measurement is cut into, so that threads share it evenly.
const PIECES: usize = 64;

/// Rows whose products leave it to the processor to ask for weights, and rows whose products do so themselves.
const FEW_AND_MANY: [usize; 2] = [1, 16];

impl Workspace {
    /// Bytes per second of reading `bytes` from front to back with all threads, over and over: from memory where they
    /// do not fit the caches, partly from these where they do. The faster way of asking for them counts.
    pub fn read_bandwidth(&mut self, bytes: usize) -> f64 {
        let buffer = vec![1.0_f32; bytes / size_of::<f32>()];
        let piece = buffer.len().div_ceil(PIECES).max(1);
        let pieces: Vec<&[f32]> = buffer.chunks(piece).collect();
        let mut read = |rows| self.best_of_runs(pieces.len(), |kernels, i| kernels.read(pieces[i], rows));
        let seconds = FEW_AND_MANY.map(&mut read).into_iter().fold(f64::INFINITY, f64::min);
        size_of_val(buffer.as_slice()) as f64 / seconds
    }

    /// Floating-point operations per second of f32 multiply-adds (two each) in registers with all threads.
    pub fn peak_flops(&mut self) -> f64 {
        const ROUNDS: usize = 40_000;
        let seconds = self.best_of_runs(PIECES, |kernels, _| kernels.multiply_adds(ROUNDS));
        (PIECES * ROUNDS * CHAINS * LANES * 2) as f64 / seconds
    }

    fn best_of_runs(&mut self, tasks: usize, task: impl Fn(&crate::kernels::Kernels, usize) -> f32 + Sync) -> f64 {
        let sink = AtomicU32::new(0);
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let begun = Instant::now();
            let kernels = self.kernels;
            self.team.turn(&mut self.waited).run(tasks, &|i| sink.store(task(kernels, i).to_bits(), Ordering::Relaxed));
            best = best.min(begun.elapsed().as_secs_f64());
        }
        black_box(sink.into_inner());
        best
    }
}
