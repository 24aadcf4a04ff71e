//! Sixteen lanes of `f32`, whatever the instruction set.
//!
//! Every kernel is written once over this trait. The lane count is the same everywhere, and each lane sees the same
//! operations in the same order, each rounded once: so a result depends neither on the instruction set nor on how many
//! rows or threads share the work.

use super::ahead::Ahead;

/// Lanes of one vector.
pub(crate) const LANES: usize = 16;

/// One instruction set. All functions are unsafe because the processor must support it, and because they take raw
/// pointers: `load` and `store` touch [`LANES`] elements, `load_bf16` twice as many.
pub(crate) trait Simd: Copy + 'static {
    /// Sixteen `f32`.
    type V: Copy;

    /// Rows that a register tile holds beside the weights when it is four vectors wide, two, and one.
    const ROWS: [usize; 3];
    /// When weights in f32 are asked for.
    const AHEAD: Ahead = Ahead::USUAL;
    /// When those in bf16 are, of which memory hands out twice as many in the same time.
    const BF16_AHEAD: Ahead = Ahead::USUAL;

    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self::V;
    /// Sixteen values from memory, unaligned.
    unsafe fn load(from: *const f32) -> Self::V;
    /// The first `count` of them, fewer than [`LANES`], and zeros behind.
    #[inline(always)]
    unsafe fn load_some(from: *const f32, count: usize) -> Self::V {
        let mut lanes = [0.0; LANES];
        // SAFETY: the caller gives so many values; the array holds all lanes.
        unsafe {
            lanes.as_mut_ptr().copy_from_nonoverlapping(from, count);
            Self::load(lanes.as_ptr())
        }
    }
    /// Sixteen values to memory, unaligned.
    unsafe fn store(to: *mut f32, v: Self::V);
    /// The even elements of 32 interleaved bf16, or the odd ones (see [`super::interleave`]). Exact.
    unsafe fn load_bf16<const ODD: bool>(from: *const u16) -> Self::V;
    /// Asks for the cache line at `at`, which need not be valid, to be brought into the second-level cache.
    unsafe fn prefetch(at: *const u8);
    /// Asks for the line `ahead` bytes further on than the one at `at`; none asks for nothing.
    #[inline(always)]
    unsafe fn ask(at: *const u8, ahead: Option<usize>) {
        if let Some(bytes) = ahead {
            // SAFETY: any address may be asked for.
            unsafe { Self::prefetch(at.wrapping_add(bytes)) }
        }
    }
    /// `a + b`.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// The size of each lane.
    unsafe fn abs(a: Self::V) -> Self::V;
    /// The larger of each lane.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller of each lane.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// To the nearest integer, ties to even.
    unsafe fn round(a: Self::V) -> Self::V;
    /// [`super::tile::register_tile`] compiled for this set.
    unsafe fn tile<W: Weight, const N: usize, const R: usize, const ODD: bool>(p: Product<W>);
    /// The sum of all lanes: halves are added until one is left, an order that never changes.
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { by_halves::<Self>(v, |a, b| a + b) }
    }
    /// The largest of all lanes, found in the same order.
    #[inline(always)]
    unsafe fn largest(v: Self::V) -> f32 {
        // SAFETY: as above.
        unsafe { by_halves::<Self>(v, |a, b| if a > b { a } else { b }) }
    }
    /// `a * 2^n` for integral `n` in -126..=127.
    unsafe fn scale(a: Self::V, n: Self::V) -> Self::V;
}

/// What a product reads and writes. `x`: rows of `x_stride` elements; `w`: for each of `depth` inputs (`w_stride`
/// elements apart) pairs of vectors (`pair_stride` elements apart), `vectors` in all; `acc`: rows of `acc_stride`
/// elements.
#[derive(Clone, Copy)]
pub(crate) struct Product<W> {
    pub(crate) x: *const f32,
    pub(crate) x_stride: usize,
    pub(crate) rows: usize,
    pub(crate) w: *const W,
    pub(crate) w_stride: usize,
    pub(crate) pair_stride: usize,
    pub(crate) depth: usize,
    pub(crate) vectors: usize,
    pub(crate) acc: *mut f32,
    pub(crate) acc_stride: usize,
}

/// A stored weight, and how a vector of it becomes `f32` lanes.
pub(crate) trait Weight: Copy + 'static {
    /// When such weights are asked for.
    fn ahead<S: Simd>() -> Ahead;
    /// The first vector of the pair at `pair`, or the second.
    unsafe fn load<S: Simd, const ODD: bool>(pair: *const Self) -> S::V;
}

impl Weight for f32 {
    #[inline(always)]
    fn ahead<S: Simd>() -> Ahead {
        S::AHEAD
    }
    #[inline(always)]
    unsafe fn load<S: Simd, const ODD: bool>(pair: *const Self) -> S::V {
        // SAFETY: the caller gives a readable vector there.
        unsafe { S::load(pair.add(if ODD { LANES } else { 0 })) }
    }
}

/// bf16, interleaved in groups of 32.
impl Weight for u16 {
    #[inline(always)]
    fn ahead<S: Simd>() -> Ahead {
        S::BF16_AHEAD
    }
    #[inline(always)]
    unsafe fn load<S: Simd, const ODD: bool>(pair: *const Self) -> S::V {
        // SAFETY: the caller gives a readable pair.
        unsafe { S::load_bf16::<ODD>(pair) }
    }
}

/// Lanes of `v` as an array.
#[inline(always)]
pub(crate) unsafe fn to_array<S: Simd>(v: S::V) -> [f32; LANES] {
    let mut out = [0.0; LANES];
    // SAFETY: the array holds LANES elements.
    unsafe { S::store(out.as_mut_ptr(), v) };
    out
}

/// One lane of two, until one is left: each of the first half and its counterpart in the second.
#[inline(always)]
unsafe fn by_halves<S: Simd>(v: S::V, one: impl Fn(f32, f32) -> f32) -> f32 {
    // SAFETY: the caller vouches for the instruction set.
    let mut lanes = unsafe { to_array::<S>(v) };
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = one(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// `e^x`, relative error below 2e-7 for x in -87..=88; clamped beyond.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`, and a polynomial of degree 6 for `e^r` (Cephes' `expf` coefficients).
#[inline(always)]
pub(crate) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set; only lane arithmetic.
    unsafe {
        let x = S::min(S::max(x, S::splat(-87.0)), S::splat(88.0));
        let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        let r = S::fma(n, S::splat(-0.693_359_4), x);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        let mut p = S::splat(1.987_569_1e-4);
        for c in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
            p = S::fma(p, r, S::splat(c));
        }
        let r2 = S::mul(r, r);
        let e = S::add(S::fma(p, r2, r), S::splat(1.0));
        S::scale(e, n)
    }
}
