//! The one product kernel: `acc[r][c] += sum over i of x[r][i] * w[i][c]`.
//!
//! Weights lie in panels, `w[i]` being the values that input `i` contributes to neighbouring outputs, so that a vector
//! of weights is loaded once for all rows. It serves the linear layers (a panel of the weight matrix), attention
//! scores (a block of keys, transposed) and the weighted sum of values (a block of values) alike. Each lane adds its
//! products in the order of `i`, whatever the number of rows: this is where batch invariance comes from.

use super::ahead::CACHE_LINE;
use super::simd::{LANES, Product, Simd, Weight};

/// The weights of one input for `R` rows: `N` vectors; a single one is the second of its pair if `ODD`.
#[inline(always)]
unsafe fn weights<S: Simd, W: Weight, const N: usize, const R: usize, const ODD: bool>(
    p: &Product<W>,
    input: usize,
) -> [S::V; N] {
    // SAFETY: `p` describes valid memory.
    unsafe {
        let mut out = [S::splat(0.0); N];
        for (pair, vectors) in out.chunks_mut(2).enumerate() {
            let from = p.w.add(input * p.w_stride + pair * p.pair_stride);
            let bytes = vectors.len() * LANES * size_of::<W>();
            // Where two vectors share a line it is asked for once.
            if !ODD || bytes >= CACHE_LINE {
                let lines = (0..bytes).step_by(CACHE_LINE);
                lines.for_each(|line| S::ask(from.cast::<u8>().wrapping_add(line), W::ahead::<S>().of_rows(R)));
            }
            vectors[0] = W::load::<S, ODD>(from);
            if let Some(v) = vectors.get_mut(1) {
                *v = W::load::<S, true>(from);
            }
        }
        out
    }
}

/// One register tile: `R` rows by `N` vectors.
#[inline(always)]
pub(crate) unsafe fn register_tile<S: Simd, W: Weight, const N: usize, const R: usize, const ODD: bool>(p: Product<W>) {
    // SAFETY: `p` describes valid memory; see `Product`.
    unsafe {
        let mut acc = [[S::splat(0.0); N]; R];
        for (r, row) in acc.iter_mut().enumerate() {
            for (n, v) in row.iter_mut().enumerate() {
                *v = S::load(p.acc.add(r * p.acc_stride + n * LANES));
            }
        }
        for i in 0..p.depth {
            let w = weights::<S, W, N, R, ODD>(&p, i);
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

/// [`Simd::tile`] as a function of its own: inside a larger one the compiler would keep sums in memory. It has none of the
/// set's features, because `#[inline(never)]` is lost beside `#[target_feature]` (rustc 1.95), and so nothing that has
/// them becomes part of it.
#[inline(never)]
unsafe fn apart<S: Simd, W: Weight, const N: usize, const R: usize, const ODD: bool>(p: Product<W>) {
    // SAFETY: passed on to the caller.
    unsafe { S::tile::<W, N, R, ODD>(p) }
}

/// A strip of `N` vectors over all rows, in register tiles of about equal height.
unsafe fn strip<S: Simd, W: Weight, const N: usize, const ODD: bool>(mut p: Product<W>) {
    let [wide, two, one] = S::ROWS;
    let most = [one, two, wide][N / 2];
    let mut left = p.rows;
    while left > 0 {
        let height = left.div_ceil(left.div_ceil(most));
        // SAFETY: the rows of `p` are walked once.
        unsafe {
            match height {
                1 => apart::<S, W, N, 1, ODD>(p),
                2 => apart::<S, W, N, 2, ODD>(p),
                3 => apart::<S, W, N, 3, ODD>(p),
                4 => apart::<S, W, N, 4, ODD>(p),
                5 => apart::<S, W, N, 5, ODD>(p),
                6 => apart::<S, W, N, 6, ODD>(p),
                7 => apart::<S, W, N, 7, ODD>(p),
                8 => apart::<S, W, N, 8, ODD>(p),
                9 => apart::<S, W, N, 9, ODD>(p),
                10 => apart::<S, W, N, 10, ODD>(p),
                11 => apart::<S, W, N, 11, ODD>(p),
                _ => apart::<S, W, N, 12, ODD>(p),
            }
            p.x = p.x.add(height * p.x_stride);
            p.acc = p.acc.add(height * p.acc_stride);
        }
        left -= height;
    }
}

/// Inputs that all rows take before the next ones: their weights stay in the nearest cache while each tile of rows walks
/// them, and the next ones come from memory meanwhile.
const DEPTH_AT_ONCE: usize = 128;

/// The whole product, in strips of four, two or one vectors. Few rows want wide strips (more independent sums to hide
/// latency), many want narrow ones (more rows to a loaded weight).
pub(crate) unsafe fn product<S: Simd, W: Weight>(mut p: Product<W>) {
    let [wide, two, one] = S::ROWS;
    let widest = if p.rows <= wide {
        4
    } else if p.rows <= two || one <= two {
        2
    } else {
        1
    };
    let mut left = p.vectors;
    while left > 0 {
        // SAFETY: the vectors of `p` are walked once.
        unsafe {
            let width = match left.min(widest) {
                4.. => {
                    strip::<S, W, 4, false>(p);
                    4
                }
                2 | 3 => {
                    in_depth(p, |p| strip::<S, W, 2, false>(p));
                    2
                }
                _ => {
                    in_depth(p, |p| {
                        strip::<S, W, 1, false>(p);
                        if left > 1 {
                            strip::<S, W, 1, true>(Product { acc: p.acc.add(LANES), ..p });
                        }
                    });
                    left.min(2)
                }
            };
            p.w = p.w.add(width / 2 * p.pair_stride);
            p.acc = p.acc.add(width * LANES);
            left -= width;
        }
    }
}

/// Some inputs after the other: sums go on where they were left, so this changes no bit of them.
#[inline(always)]
unsafe fn in_depth<W: Weight>(whole: Product<W>, walk: impl Fn(Product<W>)) {
    for from in (0..whole.depth).step_by(DEPTH_AT_ONCE) {
        let depth = DEPTH_AT_ONCE.min(whole.depth - from);
        // SAFETY: these are inputs of the product.
        walk(unsafe { Product { x: whole.x.add(from), w: whole.w.add(from * whole.w_stride), depth, ..whole } });
    }
}
