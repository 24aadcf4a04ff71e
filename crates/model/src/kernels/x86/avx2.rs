//! AVX2 with FMA, and with the products of bytes that newer processors without AVX-512 have: AVX-VNNI.

// One argument holds for every function below: the dispatcher in `super` offers a set only where the processor has it,
// and pointers hold what the trait asks for.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::arch::asm;
use std::arch::x86_64::*;

use super::super::ahead::Ahead;
use super::super::bf16::{self, Bf16, Floats, Order};
use super::super::blocks::{GROUP, TileProduct};
use super::super::int8::{self, InputGroup, Int8, QUAD, Weights};
use super::super::rounding::{ROUNDED_AT_ONCE, ToBytes};
use super::super::simd::{LANES, Product, Simd, Weight};
use super::super::tile::register_tile;
use super::bytes;

/// Whoever multiplies 16 bytes of weights a nanosecond, or a few more, as Zen 1 does with one row of bytes or of bf16, is no
/// faster than memory, and takes 4 KB in 250 ns.
const SOON: Ahead = Ahead { rows_min: 1, bytes: 4 * 1024 };

/// Two 256-bit registers a vector; bytes are multiplied by `vpdpbusd` if `VNNI`.
#[derive(Clone, Copy)]
pub(crate) struct Avx2<const VNNI: bool>;

/// An instruction on both halves.
macro_rules! both {
    ($f:ident, $a:expr, $b:expr) => {
        unsafe { [$f($a[0], $b[0]), $f($a[1], $b[1])] }
    };
}

impl<const VNNI: bool> Simd for Avx2<VNNI> {
    type V = [__m256; 2];
    // 16 registers, two for a vector: 1 x 4, 2 x 2 or 6 x 1 accumulators, the weights, and one for the row's value.
    const ROWS: [usize; 3] = [1, 2, 6];
    const AHEAD: Ahead = Ahead { rows_min: 2, ..SOON };
    const BF16_AHEAD: Ahead = SOON;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { [_mm256_set1_ps(x); 2] }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        unsafe {
            _mm256_storeu_ps(to, v[0]);
            _mm256_storeu_ps(to.add(8), v[1]);
        }
    }
    #[inline(always)]
    unsafe fn load_bf16<const ODD: bool>(from: *const u16) -> Self::V {
        unsafe {
            let mask = _mm256_set1_epi32(0xFFFF_0000_u32 as i32);
            [from, from.add(LANES)].map(|half| {
                let pairs = _mm256_loadu_si256(anew::<ODD>(half).cast());
                let widened = if ODD { _mm256_and_si256(pairs, mask) } else { _mm256_slli_epi32::<16>(pairs) };
                _mm256_castsi256_ps(widened)
            })
        }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_add_ps, a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_sub_ps, a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_mul_ps, a, b)
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_div_ps, a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: Self::V) -> Self::V {
        unsafe { a.map(|half| _mm256_andnot_ps(_mm256_set1_ps(-0.0), half)) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_max_ps, a, b)
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_min_ps, a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }
    #[inline(always)]
    unsafe fn round(a: Self::V) -> Self::V {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        unsafe { [_mm256_round_ps::<NEAREST>(a[0]), _mm256_round_ps::<NEAREST>(a[1])] }
    }
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn tile<W: Weight, const N: usize, const R: usize, const ODD: bool>(p: Product<W>) {
        // SAFETY: passed on to the caller.
        unsafe { register_tile::<Self, W, N, R, ODD>(p) }
    }
    #[inline(always)]
    unsafe fn scale(a: Self::V, n: Self::V) -> Self::V {
        unsafe {
            let bias = _mm256_set1_epi32(127);
            let low = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(n[0]), bias));
            let high = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(n[1]), bias));
            [_mm256_mul_ps(a[0], _mm256_castsi256_ps(low)), _mm256_mul_ps(a[1], _mm256_castsi256_ps(high))]
        }
    }
}

/// The same address, which the compiler takes for another one if `ANEW`: else it keeps what was read there for the even
/// elements in registers that are needed for sums.
#[inline(always)]
fn anew<const ANEW: bool>(mut from: *const u16) -> *const u16 {
    if ANEW {
        // SAFETY: does nothing.
        unsafe { asm!("/* {} */", inout(reg) from, options(pure, readonly, nostack, preserves_flags)) };
    }
    from
}

/// The same, computed here: else the compiler first computes the products of a whole group, which registers cannot hold.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn now(mut sums: __m256i) -> __m256i {
    unsafe { asm!("/* {} */", inout(ymm_reg) sums, options(pure, nomem, nostack, preserves_flags)) };
    sums
}

/// Sums of products of bytes by AVX-VNNI.
#[inline(always)]
unsafe fn four_products(sums: [__m256i; 2], unsigned: [__m256i; 2], quants: __m256i) -> [__m256i; 2] {
    unsafe {
        let low = _mm256_dpbusd_avx_epi32(sums[0], unsigned[0], quants);
        [low, _mm256_dpbusd_avx_epi32(sums[1], unsigned[1], quants)]
    }
}

/// Those of AVX2: pairs of products in 16 bits each, then pairs of pairs in 32. All rows share the sizes of weights.
#[inline(always)]
unsafe fn pairs_of_products(sums: [__m256i; 2], weights: [__m256i; 2], quants: __m256i) -> [__m256i; 2] {
    unsafe {
        let [low, high] =
            weights.map(|weights| _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(quants, weights)));
        let ones = _mm256_set1_epi16(1);
        let low = _mm256_add_epi32(sums[0], _mm256_madd_epi16(low, ones));
        let high = _mm256_add_epi32(sums[1], _mm256_madd_epi16(high, ones));
        [now(low), now(high)]
    }
}

impl<const VNNI: bool> Int8 for Avx2<VNNI> {
    type Sums = [__m256i; 2];
    /// Without VNNI in 16 bits: a group's products come to `GROUP / 2 * 15 * 127 = 30 480` at most, in each half of a lane.
    type NibbleSums = [__m256i; 2];
    /// With VNNI 128 more than the weights, so that they are positive.
    type Quads = [__m256i; 2];
    // 16 registers: 4 rows of a vector take 8 for sums, 2 for weights, 2 for their sizes, one for inputs, one for ones and
    // two for products. One row of two vectors takes 4 for sums, 4 for weights and 4 for their sizes. By VNNI 6 rows take 12
    // for sums, 2 for weights and one for inputs; two of two vectors 8, 4 and one.
    const INT8_ROWS: usize = if VNNI { 6 } else { 4 };
    const INT8_ROWS_OF_BOTH: usize = if VNNI { 2 } else { 1 };
    const INT8_AHEAD: Ahead = if VNNI { Ahead::USUAL } else { SOON };

    #[inline(always)]
    unsafe fn nibble_zero() -> Self::NibbleSums {
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    unsafe fn begin(x: *const InputGroup) -> Self::Sums {
        unsafe { if VNNI { [_mm256_set1_epi32((*x).offset); 2] } else { [_mm256_setzero_si256(); 2] } }
    }
    #[inline(always)]
    unsafe fn load_quads(from: *const u8) -> Self::Quads {
        unsafe {
            let weights = load_bytes(from);
            if VNNI { weights.map(|weights| _mm256_xor_si256(weights, _mm256_set1_epi8(i8::MIN))) } else { weights }
        }
    }
    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [Self::Quads; 2] {
        unsafe {
            let below = _mm256_set1_epi8(15);
            let bytes = load_bytes(from);
            let upper = bytes.map(|bytes| _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), below));
            [bytes.map(|bytes| _mm256_and_si256(bytes, below)), upper]
        }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, weights: Self::Quads, x: *const InputGroup, quad: usize) -> Self::Sums {
        unsafe {
            let quants = quad_of(x, quad);
            if VNNI { four_products(sums, weights, quants) } else { pairs_of_products(sums, weights, quants) }
        }
    }
    #[inline(always)]
    unsafe fn dot_nibbles(
        sums: Self::NibbleSums,
        weights: Self::Quads,
        x: *const InputGroup,
        quad: usize,
    ) -> Self::NibbleSums {
        unsafe {
            let quants = quad_of(x, quad);
            if VNNI {
                return four_products(sums, weights, quants);
            }
            let low = _mm256_add_epi16(sums[0], _mm256_maddubs_epi16(weights[0], quants));
            let high = _mm256_add_epi16(sums[1], _mm256_maddubs_epi16(weights[1], quants));
            [now(low), now(high)]
        }
    }
    #[inline(always)]
    unsafe fn of_nibbles(sums: Self::NibbleSums) -> Self::Sums {
        if VNNI { sums } else { unsafe { sums.map(|sums| _mm256_madd_epi16(sums, _mm256_set1_epi16(1))) } }
    }
    #[inline(always)]
    unsafe fn sums_to_f32(sums: Self::Sums) -> Self::V {
        unsafe { [_mm256_cvtepi32_ps(sums[0]), _mm256_cvtepi32_ps(sums[1])] }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self::V {
        unsafe {
            let [low, high] = [_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(8).cast())];
            [_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)]
        }
    }
    #[inline(always)]
    unsafe fn int8_tile<W: Weights, const R: usize>(p: TileProduct<InputGroup>) {
        unsafe { if VNNI { int8_tile_by_vnni::<W, R>(&p) } else { int8_tile::<W, R>(&p) } }
    }
}

/// Bytes of a vector's lanes.
#[inline(always)]
unsafe fn load_bytes(from: *const u8) -> [__m256i; 2] {
    unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8 * QUAD).cast())] }
}

/// Four inputs, for all lanes.
#[inline(always)]
unsafe fn quad_of(x: *const InputGroup, quad: usize) -> __m256i {
    unsafe { _mm256_set1_epi32((&raw const (*x).quants).cast::<i32>().add(quad).read()) }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn int8_tile<W: Weights, const R: usize>(p: &TileProduct<InputGroup>) {
    // SAFETY: passed on to the caller.
    unsafe { int8::register_tile::<Avx2<false>, W, R>(p) }
}

#[target_feature(enable = "avxvnni,avx2,fma,f16c")]
unsafe fn int8_tile_by_vnni<W: Weights, const R: usize>(p: &TileProduct<InputGroup>) {
    // SAFETY: passed on to the caller.
    unsafe { int8::register_tile::<Avx2<true>, W, R>(p) }
}

impl<const VNNI: bool> ToBytes for Avx2<VNNI> {
    #[inline(always)]
    unsafe fn largest_of_each(values: [Self::V; ROUNDED_AT_ONCE]) -> [f32; ROUNDED_AT_ONCE] {
        unsafe {
            let [a, b, c, d] = values;
            let [a, b] = [_mm256_max_ps(a[0], a[1]), _mm256_max_ps(b[0], b[1])];
            let [c, d] = [_mm256_max_ps(c[0], c[1]), _mm256_max_ps(d[0], d[1])];
            bytes::largest_of_each([a, b, c, d])
        }
    }
    #[inline(always)]
    unsafe fn to_bytes(
        values: [[Self::V; 2]; ROUNDED_AT_ONCE],
    ) -> ([[i8; GROUP]; ROUNDED_AT_ONCE], [i32; ROUNDED_AT_ONCE]) {
        unsafe { bytes::of_quarters(values) }
    }
}

impl<const VNNI: bool> Bf16 for Avx2<VNNI> {
    // 16 registers, two for a vector.
    const BF16_CHAINS: usize = 6;

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn bf16_tile<O: Order, const R: usize>(p: TileProduct<Floats>) {
        // SAFETY: passed on to the caller.
        unsafe { bf16::register_tile::<Self, O, R>(&p) }
    }
}
