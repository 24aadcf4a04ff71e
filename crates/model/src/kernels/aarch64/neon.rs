//! NEON, which every processor of this kind has, with the products of bytes that most have.

// One argument holds for every function below: NEON is always there, the dispatcher in `super` offers dot products only where
// the processor has them, and pointers hold what the traits ask for.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::arch::aarch64::*;
use std::arch::asm;

use super::super::bf16::{self, Bf16, Floats, Order};
use super::super::blocks::{GROUP, TileProduct};
use super::super::int8::{self, InputGroup, Int8, QUAD, Weights};
use super::super::portable::Portable;
use super::super::rounding::{ROUNDED_AT_ONCE, ToBytes};
use super::super::simd::{LANES, Product, Simd, Weight, to_array};
use super::super::tile::register_tile;

/// Four 128-bit registers a vector; bytes are multiplied by `sdot` if `DOTS`.
#[derive(Clone, Copy)]
pub(crate) struct Neon<const DOTS: bool>;

/// Lanes of a register.
const FOUR: usize = 4;

/// An instruction on each quarter of its arguments.
macro_rules! each {
    ($f:ident, $a:expr) => {
        [$f($a[0]), $f($a[1]), $f($a[2]), $f($a[3])]
    };
    ($f:ident, $a:expr, $b:expr) => {
        [$f($a[0], $b[0]), $f($a[1], $b[1]), $f($a[2], $b[2]), $f($a[3], $b[3])]
    };
    ($f:ident, $a:expr, $b:expr, $c:expr) => {
        [$f($a[0], $b[0], $c[0]), $f($a[1], $b[1], $c[1]), $f($a[2], $b[2], $c[2]), $f($a[3], $b[3], $c[3])]
    };
}

impl<const DOTS: bool> Simd for Neon<DOTS> {
    type V = [float32x4_t; 4];
    // 32 registers, four for a vector: 1 x 4, 3 x 2 or 6 x 1 sums, a vector of weights, and one for the row's value.
    const ROWS: [usize; 3] = [1, 3, 6];

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { [vdupq_n_f32(x); 4] }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        let quarters = [from, from.wrapping_add(FOUR), from.wrapping_add(2 * FOUR), from.wrapping_add(3 * FOUR)];
        unsafe { each!(vld1q_f32, quarters) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        for (quarter, v) in v.into_iter().enumerate() {
            unsafe { vst1q_f32(to.add(quarter * FOUR), v) };
        }
    }
    #[inline(always)]
    unsafe fn load_bf16<const ODD: bool>(from: *const u16) -> Self::V {
        unsafe {
            let mut widened = [vdupq_n_f32(0.0); 4];
            for (quarter, widened) in widened.iter_mut().enumerate() {
                let pairs = vld1q_u32(from.cast::<u32>().add(quarter * FOUR));
                let bits = if ODD { vandq_u32(pairs, vdupq_n_u32(0xFFFF_0000)) } else { vshlq_n_u32::<16>(pairs) };
                *widened = vreinterpretq_f32_u32(bits);
            }
            widened
        }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        unsafe { asm!("prfm pldl2keep, [{}]", in(reg) at, options(readonly, nostack, preserves_flags)) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        unsafe { each!(vaddq_f32, a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        unsafe { each!(vsubq_f32, a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        unsafe { each!(vmulq_f32, a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        unsafe { each!(vdivq_f32, a, b) }
    }
    #[inline(always)]
    unsafe fn abs(a: Self::V) -> Self::V {
        unsafe { each!(vabsq_f32, a) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        unsafe { each!(vmaxnmq_f32, a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        unsafe { each!(vminnmq_f32, a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { each!(vfmaq_f32, c, a, b) }
    }
    #[inline(always)]
    unsafe fn round(a: Self::V) -> Self::V {
        unsafe { each!(vrndnq_f32, a) }
    }
    unsafe fn tile<W: Weight, const N: usize, const R: usize, const ODD: bool>(p: Product<W>) {
        // SAFETY: passed on to the caller.
        unsafe { register_tile::<Self, W, N, R, ODD>(p) }
    }
    #[inline(always)]
    unsafe fn scale(a: Self::V, n: Self::V) -> Self::V {
        unsafe {
            let bias = [vdupq_n_s32(127); 4];
            let exponents = each!(vaddq_s32, each!(vcvtq_s32_f32, n), bias);
            let powers = exponents.map(|exponent| vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent)));
            Self::mul(a, powers)
        }
    }
}

/// Adds to each lane the products of its four weights with the four inputs.
#[inline(always)]
unsafe fn four_products<const DOTS: bool>(mut sums: int32x4_t, weights: int8x16_t, quants: int8x16_t) -> int32x4_t {
    unsafe {
        if DOTS {
            // The library's function for it is not stable (rustc 1.95).
            asm!(
                ".arch_extension dotprod",
                "sdot {sums:v}.4s, {weights:v}.16b, {quants:v}.16b",
                sums = inout(vreg) sums,
                weights = in(vreg) weights,
                quants = in(vreg) quants,
                options(pure, nomem, nostack, preserves_flags)
            );
            return sums;
        }
        // Two products fit 16 bits each; pairs of them become one of 32 bits.
        let low = vpaddlq_s16(vmull_s8(vget_low_s8(weights), vget_low_s8(quants)));
        let high = vpaddlq_s16(vmull_high_s8(weights, quants));
        vaddq_s32(sums, vpaddq_s32(low, high))
    }
}

impl<const DOTS: bool> Int8 for Neon<DOTS> {
    type Sums = [int32x4_t; 4];
    type NibbleSums = Self::Sums;
    type Quads = [int8x16_t; 4];
    // 32 registers: 6 rows of a vector take 24 for sums, 4 for weights and one for inputs; two of both vectors 16, 8 and one.
    // Without `sdot` pairs of products take more.
    const INT8_ROWS: usize = if DOTS { 6 } else { 4 };
    const INT8_ROWS_OF_BOTH: usize = if DOTS { 2 } else { 1 };

    #[inline(always)]
    unsafe fn nibble_zero() -> Self::NibbleSums {
        unsafe { [vdupq_n_s32(0); 4] }
    }
    #[inline(always)]
    unsafe fn begin(_: *const InputGroup) -> Self::Sums {
        unsafe { [vdupq_n_s32(0); 4] }
    }
    #[inline(always)]
    unsafe fn load_quads(from: *const u8) -> Self::Quads {
        const REGISTER: usize = FOUR * QUAD;
        let from = from.cast::<i8>();
        let quarters =
            [from, from.wrapping_add(REGISTER), from.wrapping_add(2 * REGISTER), from.wrapping_add(3 * REGISTER)];
        unsafe { each!(vld1q_s8, quarters) }
    }
    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [Self::Quads; 2] {
        unsafe {
            let bytes = Self::load_quads(from).map(|bytes| vreinterpretq_u8_s8(bytes));
            let lower = bytes.map(|bytes| vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))));
            [lower, bytes.map(|bytes| vreinterpretq_s8_u8(vshrq_n_u8::<4>(bytes)))]
        }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, weights: Self::Quads, x: *const InputGroup, quad: usize) -> Self::Sums {
        unsafe {
            let quants = vreinterpretq_s8_s32(vld1q_dup_s32((&raw const (*x).quants).cast::<i32>().add(quad)));
            [
                four_products::<DOTS>(sums[0], weights[0], quants),
                four_products::<DOTS>(sums[1], weights[1], quants),
                four_products::<DOTS>(sums[2], weights[2], quants),
                four_products::<DOTS>(sums[3], weights[3], quants),
            ]
        }
    }
    #[inline(always)]
    unsafe fn dot_nibbles(
        sums: Self::NibbleSums,
        weights: Self::Quads,
        x: *const InputGroup,
        quad: usize,
    ) -> Self::NibbleSums {
        unsafe { Self::dot(sums, weights, x, quad) }
    }
    #[inline(always)]
    unsafe fn of_nibbles(sums: Self::NibbleSums) -> Self::Sums {
        sums
    }
    #[inline(always)]
    unsafe fn sums_to_f32(sums: Self::Sums) -> Self::V {
        unsafe { each!(vcvtq_f32_s32, sums) }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self::V {
        unsafe {
            let mut widened = [vdupq_n_f32(0.0); 4];
            for (quarter, widened) in widened.iter_mut().enumerate() {
                *widened = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from.add(quarter * FOUR))));
            }
            widened
        }
    }
    unsafe fn int8_tile<W: Weights, const R: usize>(p: TileProduct<InputGroup>) {
        // SAFETY: passed on to the caller.
        unsafe { int8::register_tile::<Self, W, R>(&p) }
    }
}

impl<const DOTS: bool> ToBytes for Neon<DOTS> {
    #[inline(always)]
    unsafe fn largest_of_each(values: [Self::V; ROUNDED_AT_ONCE]) -> [f32; ROUNDED_AT_ONCE] {
        unsafe {
            let mut largest = [0.0; ROUNDED_AT_ONCE];
            for (largest, [a, b, c, d]) in largest.iter_mut().zip(values) {
                *largest = vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(a, b), vmaxnmq_f32(c, d)));
            }
            largest
        }
    }
    #[inline(always)]
    unsafe fn to_bytes(
        values: [[Self::V; 2]; ROUNDED_AT_ONCE],
    ) -> ([[i8; GROUP]; ROUNDED_AT_ONCE], [i32; ROUNDED_AT_ONCE]) {
        unsafe {
            let (mut bytes, mut totals) = ([[0; GROUP]; ROUNDED_AT_ONCE], [0; ROUNDED_AT_ONCE]);
            for ((bytes, total), halves) in bytes.iter_mut().zip(&mut totals).zip(values) {
                for (bytes, half) in bytes.as_chunks_mut::<LANES>().0.iter_mut().zip(halves) {
                    let [a, b, c, d] = each!(vcvtnq_s32_f32, half);
                    let low = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
                    let high = vcombine_s16(vmovn_s32(c), vmovn_s32(d));
                    let sixteen = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
                    vst1q_s8(bytes.as_mut_ptr(), sixteen);
                    *total += i32::from(vaddlvq_s8(sixteen));
                }
            }
            (bytes, totals)
        }
    }
}

impl<const DOTS: bool> Bf16 for Neon<DOTS> {
    // 32 registers, four for a vector.
    const BF16_CHAINS: usize = 6;

    // Told to make zeros of numbers that are too small, these processors decide by the exact result, others by the rounded
    // one. So they are not told to, and the few results that may be too small are computed by portable code.
    #[inline(always)]
    unsafe fn fma_or_zero(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe {
            let sum = Self::fma(a, b, c);
            if all_normal(sum) { sum } else { fma_or_zero_by_lanes(a, b, c) }
        }
    }
    #[inline(always)]
    unsafe fn add_or_zero(a: Self::V, b: Self::V) -> Self::V {
        unsafe {
            let sum = Self::add(a, b);
            if all_normal(sum) { sum } else { add_or_zero_by_lanes(a, b) }
        }
    }
    unsafe fn bf16_tile<O: Order, const R: usize>(p: TileProduct<Floats>) {
        // SAFETY: passed on to the caller.
        unsafe { bf16::register_tile::<Self, O, R>(&p) }
    }
}

/// Whether all lanes are larger than the smallest normal number.
#[inline(always)]
unsafe fn all_normal(v: [float32x4_t; 4]) -> bool {
    unsafe {
        let [a, b, c, d] = each!(vcagtq_f32, v, [vdupq_n_f32(f32::MIN_POSITIVE); 4]);
        vminvq_u32(vandq_u32(vandq_u32(a, b), vandq_u32(c, d))) != 0
    }
}

#[cold]
#[inline(never)]
unsafe fn fma_or_zero_by_lanes(a: [float32x4_t; 4], b: [float32x4_t; 4], c: [float32x4_t; 4]) -> [float32x4_t; 4] {
    unsafe {
        let (a, b, c) = (to_array::<Neon<false>>(a), to_array::<Neon<false>>(b), to_array::<Neon<false>>(c));
        Neon::<false>::load(Portable::fma_or_zero(a, b, c).as_ptr())
    }
}

#[cold]
#[inline(never)]
unsafe fn add_or_zero_by_lanes(a: [float32x4_t; 4], b: [float32x4_t; 4]) -> [float32x4_t; 4] {
    unsafe {
        let (a, b) = (to_array::<Neon<false>>(a), to_array::<Neon<false>>(b));
        Neon::<false>::load(Portable::add_or_zero(a, b).as_ptr())
    }
}
