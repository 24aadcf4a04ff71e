//! AVX-512, with VNNI or without.

// One argument holds for every function below: the dispatcher in `super` offers a set only where the processor has it,
// and pointers hold what the trait asks for.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::arch::x86_64::*;

use super::super::bf16::{self, Bf16, Floats, Order};
use super::super::blocks::{GROUP, TileProduct};
use super::super::int8::{self, InputGroup, Int8, Weights};
use super::super::rounding::{ROUNDED_AT_ONCE, ToBytes};
use super::super::simd::{Product, Simd, Weight};
use super::super::tile::register_tile;
use super::bytes;

/// One 512-bit register a vector.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

/// One lane of two, until one is left, by instructions on half a vector and on a quarter.
macro_rules! by_halves {
    ($v:expr, $half:ident, $quarter:ident) => {
        unsafe {
            let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd($v)));
            let eight = $half(_mm512_castps512_ps256($v), upper);
            let four = $quarter(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = $quarter(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32($quarter(two, _mm_movehdup_ps(two)))
        }
    };
}

impl Simd for Avx512 {
    type V = __m512;
    // 32 registers: 6 x 4 or 12 x 2 accumulators, the weights, and one for the row's value.
    const ROWS: [usize; 3] = [6, 12, 12];

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_some(from: *const f32, count: usize) -> Self::V {
        unsafe { _mm512_maskz_loadu_ps((1 << count) - 1, from) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        unsafe { _mm512_storeu_ps(to, v) }
    }
    #[inline(always)]
    unsafe fn load_bf16<const ODD: bool>(from: *const u16) -> Self::V {
        unsafe {
            let pairs = _mm512_loadu_si512(from.cast());
            _mm512_castsi512_ps(if ODD {
                _mm512_and_si512(pairs, _mm512_set1_epi32(0xFFFF_0000_u32 as i32))
            } else {
                _mm512_slli_epi32::<16>(pairs)
            })
        }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn abs(a: Self::V) -> Self::V {
        unsafe { _mm512_abs_ps(a) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn round(a: Self::V) -> Self::V {
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma")]
    unsafe fn tile<W: Weight, const N: usize, const R: usize, const ODD: bool>(p: Product<W>) {
        // SAFETY: passed on to the caller.
        unsafe { register_tile::<Self, W, N, R, ODD>(p) }
    }
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        by_halves!(v, _mm256_add_ps, _mm_add_ps)
    }
    #[inline(always)]
    unsafe fn largest(v: Self::V) -> f32 {
        by_halves!(v, _mm256_max_ps, _mm_max_ps)
    }
    #[inline(always)]
    unsafe fn scale(a: Self::V, n: Self::V) -> Self::V {
        unsafe { _mm512_scalef_ps(a, n) }
    }
}

/// With VNNI; without, the table takes [`Avx2`] for products of bytes.
impl Int8 for Avx512 {
    type Sums = __m512i;
    type NibbleSums = __m512i;
    type Quads = __m512i;
    // 32 registers: 2 x 12 sums, 2 of weights, one of inputs, which two vectors share.
    const INT8_ROWS: usize = 12;

    #[inline(always)]
    unsafe fn nibble_zero() -> Self::Sums {
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn begin(x: *const InputGroup) -> Self::Sums {
        unsafe { _mm512_set1_epi32((*x).offset) }
    }
    #[inline(always)]
    unsafe fn load_quads(from: *const u8) -> Self::Quads {
        // 128 more: flipping the sign's bit.
        unsafe { _mm512_xor_si512(_mm512_loadu_si512(from.cast()), _mm512_set1_epi8(i8::MIN)) }
    }
    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [Self::Quads; 2] {
        unsafe {
            let below = _mm512_set1_epi8(15);
            let bytes = _mm512_loadu_si512(from.cast());
            [_mm512_and_si512(bytes, below), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), below)]
        }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, weights: Self::Quads, x: *const InputGroup, quad: usize) -> Self::Sums {
        unsafe {
            let quants = (&raw const (*x).quants).cast::<i32>().add(quad).read_unaligned();
            _mm512_dpbusd_epi32(sums, weights, _mm512_set1_epi32(quants))
        }
    }
    #[inline(always)]
    unsafe fn dot_nibbles(sums: Self::Sums, weights: Self::Quads, x: *const InputGroup, quad: usize) -> Self::Sums {
        // SAFETY: passed on to the caller. All quads are unsigned here.
        unsafe { Self::dot(sums, weights, x, quad) }
    }
    #[inline(always)]
    unsafe fn of_nibbles(sums: Self::Sums) -> Self::Sums {
        sums
    }
    #[inline(always)]
    unsafe fn sums_to_f32(sums: Self::Sums) -> Self::V {
        unsafe { _mm512_cvtepi32_ps(sums) }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self::V {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
    #[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    unsafe fn int8_tile<W: Weights, const R: usize>(p: TileProduct<InputGroup>) {
        // SAFETY: passed on to the caller.
        unsafe { int8::register_tile::<Self, W, R>(&p) }
    }
}

impl ToBytes for Avx512 {
    #[inline(always)]
    unsafe fn largest_of_each(values: [Self::V; ROUNDED_AT_ONCE]) -> [f32; ROUNDED_AT_ONCE] {
        unsafe {
            let mut halved = [_mm256_setzero_ps(); ROUNDED_AT_ONCE];
            for (halved, v) in halved.iter_mut().zip(values) {
                let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(v)));
                *halved = _mm256_max_ps(_mm512_castps512_ps256(v), upper);
            }
            bytes::largest_of_each(halved)
        }
    }
    #[inline(always)]
    unsafe fn to_bytes(
        values: [[Self::V; 2]; ROUNDED_AT_ONCE],
    ) -> ([[i8; GROUP]; ROUNDED_AT_ONCE], [i32; ROUNDED_AT_ONCE]) {
        unsafe { bytes::of_halves(values) }
    }
}

impl Bf16 for Avx512 {
    const BF16_CHAINS: usize = 24;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
    unsafe fn bf16_tile<O: Order, const R: usize>(p: TileProduct<Floats>) {
        // SAFETY: passed on to the caller.
        unsafe { bf16::register_tile::<Self, O, R>(&p) }
    }
}
