//! Weighted sums of a few values of 8 bits, read where they lie: what [`super::int8::Q8`] makes of one group of inputs whose
//! scales are one.

use super::blocks::GROUP;
use super::int8::{InputGroup, Int8, OUTPUTS, QUAD, VECTORS};
use super::simd::LANES;

/// What is added up. `quads`: where values of [`QUAD`] positions lie for [`LANES`] dimensions, those of the next dimensions
/// behind them; `weights`: for each of `queries` the weights of all quads, eight quads to a group, of which the first has
/// scale and offset of all; `strips` of [`OUTPUTS`] dimensions, `strip_stride` bytes apart; `acc`: rows of `acc_stride`
/// elements, which are added to.
pub(crate) struct ByteValues<'a> {
    pub(crate) quads: &'a [*const u8],
    pub(crate) weights: *const InputGroup,
    pub(crate) queries: usize,
    pub(crate) strips: usize,
    pub(crate) strip_stride: usize,
    pub(crate) acc: *mut f32,
    pub(crate) acc_stride: usize,
}

impl ByteValues<'_> {
    /// Groups of a query's weights.
    fn groups(&self) -> usize {
        self.quads.len().div_ceil(GROUP / QUAD)
    }
}

/// Queries that share one walk over the values.
const QUERIES: usize = 4;

/// `acc += weights * values`.
#[inline(always)]
pub(super) unsafe fn add<S: Int8>(p: &ByteValues<'_>) {
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

/// `Q` queries. Plain loops, as in `elementwise`.
#[inline(always)]
unsafe fn some<S: Int8, const Q: usize>(p: &ByteValues<'_>, first: usize) {
    let groups = p.groups();
    // SAFETY: `p` describes valid memory.
    unsafe {
        let weights = p.weights.add(first * groups);
        for vector in 0..p.strips * VECTORS {
            let at = vector / VECTORS * p.strip_stride + vector % VECTORS * LANES * QUAD;
            let mut sums = [S::begin(weights); Q];
            for (q, sum) in sums.iter_mut().enumerate() {
                *sum = S::begin(weights.add(q * groups));
            }
            for (quad, values) in p.quads.iter().enumerate() {
                let values = S::load_quads(values.add(at));
                let (group, quad) = (quad / (GROUP / QUAD), quad % (GROUP / QUAD));
                for (q, sum) in sums.iter_mut().enumerate() {
                    *sum = S::dot(*sum, values, weights.add(q * groups + group), quad);
                }
            }
            for (q, sum) in sums.iter().enumerate() {
                let acc = p.acc.add((first + q) * p.acc_stride + vector * LANES);
                let scale = S::splat((*weights.add(q * groups)).scale);
                S::store(acc, S::fma(S::sums_to_f32(*sum), scale, S::load(acc)));
            }
        }
    }
}

const _: () = assert!(OUTPUTS == VECTORS * LANES, "a strip is so many vectors");
