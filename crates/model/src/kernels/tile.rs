//! The one product kernel: `acc[r][c] += sum over i of x[r][i] * w[i][c]`.
//!
//! Weights lie in panels, `w[i]` being the values that input `i` contributes to neighbouring outputs, so that a vector
//! of weights is loaded once for all rows. It serves the linear layers (a panel of the weight matrix), attention
//! scores (a block of keys, transposed) and the weighted sum of values (a block of values) alike. Each lane adds its
//! products in the order of `i`, whatever the number of rows: this is where batch invariance comes from.

use super::simd::{LANES, Product, Simd, Weight};

/// How far ahead of its use a weight is asked for: several rows take long enough over each weight that the processor's
/// own prefetcher falls behind memory.
const PREFETCH_BYTES: usize = 8192;

/// Bytes that memory hands out at a time.
const CACHE_LINE: usize = 64;

/// The weights of one input: `N` vectors.
#[inline(always)]
unsafe fn weights<S: Simd, W: Weight, const N: usize>(p: &Product<W>, input: usize) -> [S::V; N] {
    // SAFETY: `p` describes valid memory.
    unsafe {
        let mut out = [S::splat(0.0); N];
        for (pair, vectors) in out.chunks_mut(2).enumerate() {
            let from = p.w.add(input * p.w_stride + pair * p.pair_stride);
            for line in 0..vectors.len() * LANES * size_of::<W>() / CACHE_LINE {
                S::prefetch(from.wrapping_byte_add(PREFETCH_BYTES + line * CACHE_LINE).cast());
            }
            let (first, second) = W::load::<S>(from, vectors.len() > 1);
            vectors[0] = first;
            if let Some(v) = vectors.get_mut(1) {
                *v = second;
            }
        }
        out
    }
}

/// One register tile: `R` rows by `N` vectors.
#[inline(always)]
pub(crate) unsafe fn register_tile<S: Simd, W: Weight, const N: usize, const R: usize>(p: Product<W>) {
    // SAFETY: `p` describes valid memory; see `Product`.
    unsafe {
        let mut acc = [[S::splat(0.0); N]; R];
        for (r, row) in acc.iter_mut().enumerate() {
            for (n, v) in row.iter_mut().enumerate() {
                *v = S::load(p.acc.add(r * p.acc_stride + n * LANES));
            }
        }
        for i in 0..p.depth {
            let w = weights::<S, W, N>(&p, i);
            for (r, row) in acc.iter_mut().enumerate() {
                let x = S::splat(*p.x.add(r * p.x_stride + i));
                for (v, &w) in row.iter_mut().zip(&w) {
                    *v = S::fma(x, w, *v);
                }
            }
        }
        for (r, row) in acc.iter().enumerate() {
            for (n, v) in row.iter().enumerate() {
                S::store(p.acc.add(r * p.acc_stride + n * LANES), *v);
            }
        }
    }
}

/// A strip of `N` vectors over all rows, in register tiles of about equal height.
unsafe fn strip<S: Simd, W: Weight, const N: usize>(mut p: Product<W>) {
    let most = if N > 2 { S::ROWS_WIDE } else { S::ROWS_NARROW };
    let mut left = p.rows;
    while left > 0 {
        let height = left.div_ceil(left.div_ceil(most));
        // SAFETY: the rows of `p` are walked once.
        unsafe {
            match height {
                1 => S::tile::<W, N, 1>(p),
                2 => S::tile::<W, N, 2>(p),
                3 => S::tile::<W, N, 3>(p),
                4 => S::tile::<W, N, 4>(p),
                5 => S::tile::<W, N, 5>(p),
                6 => S::tile::<W, N, 6>(p),
                7 => S::tile::<W, N, 7>(p),
                8 => S::tile::<W, N, 8>(p),
                9 => S::tile::<W, N, 9>(p),
                10 => S::tile::<W, N, 10>(p),
                11 => S::tile::<W, N, 11>(p),
                _ => S::tile::<W, N, 12>(p),
            }
            p.x = p.x.add(height * p.x_stride);
            p.acc = p.acc.add(height * p.acc_stride);
        }
        left -= height;
    }
}

/// The whole product: strips of four, two and one vectors. Few rows want wide strips (more independent sums to hide
/// latency), many want narrow ones (more rows to a loaded weight).
pub(crate) unsafe fn product<S: Simd, W: Weight>(mut p: Product<W>) {
    let mut left = p.vectors;
    while left > 0 {
        // SAFETY: the vectors of `p` are walked once. Paired panels hold an even number of vectors.
        unsafe {
            let width = if left >= 4 && p.rows <= S::ROWS_WIDE {
                strip::<S, W, 4>(p);
                4
            } else if left >= 2 || W::PAIRED {
                strip::<S, W, 2>(p);
                2
            } else {
                strip::<S, W, 1>(p);
                1
            };
            p.w = p.w.add(width / 2 * p.pair_stride);
            p.acc = p.acc.add(width * LANES);
            left -= width;
        }
    }
}
