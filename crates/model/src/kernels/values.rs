//! Weighted sums of a few values of bf16, read where they lie, in the order of [`super::bf16::Tiles`].

use super::bf16::{Bf16, Bf16Group, Floats};
use super::blocks::GROUP;
use super::simd::LANES;

/// Values of positions side by side, which lie in rows of a block side by side: for each pair of rows the two values of each
/// of [`LANES`] dimensions, strip after strip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueRun {
    /// The block.
    pub(crate) block: *const u16,
    /// The first row.
    pub(crate) row: usize,
    /// The first position, in its group.
    pub(crate) position: usize,
    /// How many there are.
    pub(crate) len: usize,
}

/// What is added up: values of up to [`GROUP`] positions, in their order, those that are missing being zeros. `weights`:
/// rows of `positions` elements, `weights_stride` apart, one for each of `queries`; `strips` of dimensions, `strip_stride`
/// elements apart in a block; `acc`: rows of `acc_stride` elements, which are added to.
pub(crate) struct ValueGroup<'a> {
    pub(crate) runs: &'a [ValueRun],
    pub(crate) weights: *const f32,
    pub(crate) weights_stride: usize,
    pub(crate) positions: usize,
    pub(crate) queries: usize,
    pub(crate) strips: usize,
    pub(crate) strip_stride: usize,
    pub(crate) acc: *mut f32,
    pub(crate) acc_stride: usize,
}

/// Queries that share one walk over the values.
const QUERIES: usize = 4;

/// `acc += weights * values`. The processor has been told that numbers that are too small are zero.
#[inline(always)]
pub(super) unsafe fn add<S: Bf16>(p: &ValueGroup<'_>) {
    for first in (0..p.queries).step_by(QUERIES) {
        // SAFETY: passed on to the caller.
        unsafe {
            match p.queries - first {
                1 => some::<S, 1>(p, first),
                2 => some::<S, 2>(p, first),
                3 => some::<S, 3>(p, first),
                _ => some::<S, QUERIES>(p, first),
            }
        }
    }
}

/// `Q` queries.
#[inline(always)]
unsafe fn some<S: Bf16, const Q: usize>(p: &ValueGroup<'_>, first: usize) {
    // SAFETY: `p` describes valid memory.
    unsafe {
        let weights: [Floats; Q] = std::array::from_fn(|q| {
            let row = p.weights.add((first + q) * p.weights_stride);
            Floats::of(std::slice::from_raw_parts(row, p.positions))
        });
        for strip in 0..p.strips {
            let zero = S::splat(0.0);
            let (mut even, mut odd) = ([zero; Q], [zero; Q]);
            for run in p.runs {
                for next in 0..run.len {
                    let (row, position) = (run.row + next, run.position + next);
                    let pair = run.block.add(strip * p.strip_stride + row / 2 * 2 * LANES);
                    let values = if row % 2 == 1 { S::load_bf16::<true>(pair) } else { S::load_bf16::<false>(pair) };
                    let weight = |q: usize| S::splat(weights[q].0[position]);
                    if position % 2 == 1 {
                        (0..Q).for_each(|q| odd[q] = S::fma_or_zero(weight(q), values, odd[q]));
                    } else {
                        (0..Q).for_each(|q| even[q] = S::fma_or_zero(weight(q), values, even[q]));
                    }
                }
            }
            for q in 0..Q {
                let acc = p.acc.add((first + q) * p.acc_stride + strip * LANES);
                S::store(acc, S::add_or_zero(S::load(acc), S::add_or_zero(even[q], odd[q])));
            }
        }
    }
}

const _: () = assert!(GROUP.is_multiple_of(2), "pairs of rows are inside a group");
