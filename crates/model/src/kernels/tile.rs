//! The one product kernel: `acc[r][c] += sum over i of x[r][i] * w[i][c]`.
//!
//! Weights lie in panels, `w[i]` being the values that input `i` contributes to neighbouring outputs, so that a vector
//! of weights is loaded once for all rows. It serves the linear layers (a panel of the weight matrix), attention
//! scores (a block of keys, transposed) and the weighted sum of values (a block of values) alike. Each lane adds its
//! products in the order of `i`, whatever the number of rows: this is where batch invariance comes from.

use super::simd::{LANES, Simd};

/// What a product reads and writes. `x`: rows of `x_stride` elements; `w`: `depth` rows of `w_stride` elements, of
/// which `vectors` times [`LANES`] are used; `acc`: rows of `acc_stride` elements.
#[derive(Clone, Copy)]
pub(crate) struct Product<W> {
    pub(crate) x: *const f32,
    pub(crate) x_stride: usize,
    pub(crate) rows: usize,
    pub(crate) w: *const W,
    pub(crate) w_stride: usize,
    pub(crate) depth: usize,
    pub(crate) vectors: usize,
    pub(crate) acc: *mut f32,
    pub(crate) acc_stride: usize,
}

/// A stored weight: how `N` vectors of it become `f32` lanes.
pub(crate) trait Weight: Copy + 'static {
    /// Whether vectors come in pairs only.
    const PAIRED: bool;
    /// `N` vectors from memory.
    unsafe fn load<S: Simd, const N: usize>(from: *const Self) -> [S::V; N];
}

impl Weight for f32 {
    const PAIRED: bool = false;
    #[inline(always)]
    unsafe fn load<S: Simd, const N: usize>(from: *const Self) -> [S::V; N] {
        // SAFETY: the caller gives N * LANES readable elements.
        std::array::from_fn(|i| unsafe { S::load(from.add(i * LANES)) })
    }
}

/// bf16, interleaved in groups of 32; `N` is even.
impl Weight for u16 {
    const PAIRED: bool = true;
    #[inline(always)]
    unsafe fn load<S: Simd, const N: usize>(from: *const Self) -> [S::V; N] {
        // SAFETY: the caller gives N * LANES readable elements.
        unsafe {
            let mut out = [S::splat(0.0); N];
            for pair in 0..N / 2 {
                (out[2 * pair], out[2 * pair + 1]) = S::load_bf16_pair(from.add(2 * pair * LANES));
            }
            out
        }
    }
}

/// One register tile: `R` rows by `N` vectors.
#[inline(always)]
unsafe fn tile<S: Simd, W: Weight, const N: usize, const R: usize>(p: Product<W>) {
    // SAFETY: `p` describes valid memory; see `Product`.
    unsafe {
        let mut acc = [[S::splat(0.0); N]; R];
        for (r, row) in acc.iter_mut().enumerate() {
            for (n, v) in row.iter_mut().enumerate() {
                *v = S::load(p.acc.add(r * p.acc_stride + n * LANES));
            }
        }
        for i in 0..p.depth {
            let w = W::load::<S, N>(p.w.add(i * p.w_stride));
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
#[inline(always)]
unsafe fn strip<S: Simd, W: Weight, const N: usize>(mut p: Product<W>) {
    let most = if N > 2 { S::ROWS_WIDE } else { S::ROWS_NARROW };
    let mut left = p.rows;
    while left > 0 {
        let height = left.div_ceil(left.div_ceil(most));
        // SAFETY: the rows of `p` are walked once.
        unsafe {
            match height {
                1 => tile::<S, W, N, 1>(p),
                2 => tile::<S, W, N, 2>(p),
                3 => tile::<S, W, N, 3>(p),
                4 => tile::<S, W, N, 4>(p),
                5 => tile::<S, W, N, 5>(p),
                6 => tile::<S, W, N, 6>(p),
                7 => tile::<S, W, N, 7>(p),
                8 => tile::<S, W, N, 8>(p),
                9 => tile::<S, W, N, 9>(p),
                10 => tile::<S, W, N, 10>(p),
                11 => tile::<S, W, N, 11>(p),
                _ => tile::<S, W, N, 12>(p),
            }
            p.x = p.x.add(height * p.x_stride);
            p.acc = p.acc.add(height * p.acc_stride);
        }
        left -= height;
    }
}

/// The whole product: strips of four, two and one vectors. Few rows want wide strips (more independent sums to hide
/// latency), many want narrow ones (more rows to a loaded weight).
#[inline(always)]
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
            p.w = p.w.add(width * LANES);
            p.acc = p.acc.add(width * LANES);
            left -= width;
        }
    }
}
