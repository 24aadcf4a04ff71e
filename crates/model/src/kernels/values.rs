//! Weighted sums of a few values of bf16, read where they lie, in one of two orders: see [`super::bf16`].

use super::bf16::{Bf16, Bf16Group, Floats, Order};
use super::blocks::GROUP;
use super::simd::LANES;

/// Where the value of a position lies in a block: for each pair of rows the two values of each of [`LANES`] dimensions,
/// strip after strip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueAt {
    /// The pair of rows, in the block's first strip.
    pub(crate) pair: *const u16,
    /// Whether it is the second one.
    pub(crate) second: bool,
}

impl ValueAt {
    /// The value for the dimensions of the strip that begins so many elements on.
    #[inline(always)]
    unsafe fn load<S: Bf16>(&self, strip: usize) -> S::V {
        // SAFETY: the caller names a strip of the block.
        unsafe {
            let pair = self.pair.add(strip);
            if self.second { S::load_bf16::<true>(pair) } else { S::load_bf16::<false>(pair) }
        }
    }
}

/// What is added up: the values of up to [`GROUP`] positions. `weights`: for each of `queries` those of all positions,
/// `weights_stride` apart; `strips` of dimensions, `strip_stride` elements apart in a block; `acc`: rows of `acc_stride`
/// elements, which are added to.
pub(crate) struct ValueGroup<'a> {
    pub(crate) values: &'a [ValueAt],
    pub(crate) weights: *const f32,
    pub(crate) weights_stride: usize,
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
pub(super) unsafe fn add<S: Bf16, O: Order>(p: &ValueGroup<'_>) {
    for first in (0..p.queries).step_by(QUERIES) {
        // SAFETY: passed on to the caller.
        unsafe {
            match p.queries - first {
                1 => some::<S, O, 1>(p, first),
                2 => some::<S, O, 2>(p, first),
                3 => some::<S, O, 3>(p, first),
                _ => some::<S, O, QUERIES>(p, first),
            }
        }
    }
}

/// `Q` queries.
#[inline(always)]
unsafe fn some<S: Bf16, O: Order, const Q: usize>(p: &ValueGroup<'_>, first: usize) {
    // SAFETY: `p` describes valid memory.
    unsafe {
        let weights: [Floats; Q] = std::array::from_fn(|q| {
            let row = p.weights.add((first + q) * p.weights_stride);
            Floats::of(std::slice::from_raw_parts(row, p.values.len()))
        });
        for strip in 0..p.strips {
            let sums = |q: usize| p.acc.add((first + q) * p.acc_stride + strip * LANES);
            let begin: [S::V; Q] = std::array::from_fn(|q| O::begin::<S>(S::load(sums(q))));
            let mut chains = [begin; 2];
            for even in (0..p.values.len()).step_by(2) {
                if let Some(odd) = p.values.get(even + 1) {
                    let value = odd.load::<S>(strip * p.strip_stride);
                    add_one::<S, Q>(&weights, even + 1, value, &mut chains[O::CHAINS - 1]);
                }
                let value = p.values[even].load::<S>(strip * p.strip_stride);
                add_one::<S, Q>(&weights, even, value, &mut chains[0]);
            }
            let [even, odd] = chains;
            for (q, chains) in even.into_iter().zip(odd).enumerate() {
                S::store(sums(q), O::end::<S>(S::load(sums(q)), chains.into()));
            }
        }
    }
}

/// Adds the weighted value of a position to a chain of each query.
#[inline(always)]
unsafe fn add_one<S: Bf16, const Q: usize>(weights: &[Floats; Q], position: usize, value: S::V, chain: &mut [S::V; Q]) {
    for (sum, weights) in chain.iter_mut().zip(weights) {
        // SAFETY: the caller vouches for the instruction set.
        *sum = unsafe { S::fma_or_zero(S::splat(weights.0[position]), value, *sum) };
    }
}

const _: () = assert!(GROUP.is_multiple_of(2), "pairs of positions lie in one group");
