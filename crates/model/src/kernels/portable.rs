//! Plain Rust: what a processor without AVX2 gets, and what the others are read against.

use super::bf16::{self, Bf16, Floats, Order};
use super::blocks::{GROUP, TileProduct};
use super::int8::{self, InputGroup, Int8, QUAD, Weights};
use super::rounding::{ROUNDED_AT_ONCE, ToBytes};
use super::simd::{LANES, Product, Simd, Weight};
use super::tile::register_tile;

/// Arrays of sixteen that the compiler turns into whatever vectors the target has.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Portable {
    type V = [f32; LANES];
    const ROWS: [usize; 3] = [1, 2, 2];

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the caller gives LANES readable elements.
        unsafe { from.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the caller gives LANES writable elements.
        unsafe { to.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_bf16<const ODD: bool>(from: *const u16) -> Self::V {
        // SAFETY: the caller gives 2 * LANES readable elements.
        let pairs = unsafe { from.cast::<[[u16; 2]; LANES]>().read_unaligned() };
        pairs.map(|pair| f32::from_bits(u32::from(pair[usize::from(ODD)]) << 16))
    }
    #[inline(always)]
    unsafe fn prefetch(_at: *const u8) {}
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn abs(a: Self::V) -> Self::V {
        a.map(f32::abs)
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, f32::max)
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, f32::min)
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Rounded once, as by the other sets: a call of a library where the processor has no such instruction.
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn round(a: Self::V) -> Self::V {
        // Adding and taking away 1.5 * 2^23 rounds to nearest even for |a| < 2^22.
        const MAGIC: f32 = 12_582_912.0;
        a.map(|a| (a + MAGIC) - MAGIC)
    }
    unsafe fn tile<W: Weight, const N: usize, const R: usize, const ODD: bool>(p: Product<W>) {
        // SAFETY: passed on to the caller.
        unsafe { register_tile::<Self, W, N, R, ODD>(p) }
    }
    #[inline(always)]
    unsafe fn scale(a: Self::V, n: Self::V) -> Self::V {
        zip(a, n, |a, n| a * f32::from_bits(((n as i32 + 127) as u32) << 23))
    }
}

impl Int8 for Portable {
    type Sums = [i32; LANES];
    type NibbleSums = Self::Sums;
    type Quads = [[i8; QUAD]; LANES];
    const INT8_ROWS: usize = 4;
    const INT8_ROWS_OF_BOTH: usize = 0;

    #[inline(always)]
    unsafe fn nibble_zero() -> Self::Sums {
        [0; LANES]
    }
    #[inline(always)]
    unsafe fn begin(_: *const InputGroup) -> Self::Sums {
        [0; LANES]
    }
    #[inline(always)]
    unsafe fn load_quads(from: *const u8) -> Self::Quads {
        // SAFETY: the caller gives LANES * QUAD readable bytes.
        unsafe { from.cast::<Self::Quads>().read() }
    }
    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> [Self::Quads; 2] {
        // SAFETY: as above.
        let bytes = unsafe { from.cast::<[[u8; QUAD]; LANES]>().read() };
        [bytes.map(|quad| quad.map(|byte| (byte & 15) as i8)), bytes.map(|quad| quad.map(|byte| (byte >> 4) as i8))]
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, weights: Self::Quads, x: *const InputGroup, quad: usize) -> Self::Sums {
        // SAFETY: the caller gives a readable group.
        let quants = &unsafe { &*x }.quants[quad * QUAD..][..QUAD];
        std::array::from_fn(|lane| {
            let products = weights[lane].iter().zip(quants).map(|(&w, &x)| i32::from(w) * i32::from(x));
            sums[lane] + products.sum::<i32>()
        })
    }
    #[inline(always)]
    unsafe fn dot_nibbles(sums: Self::Sums, weights: Self::Quads, x: *const InputGroup, quad: usize) -> Self::Sums {
        // SAFETY: passed on to the caller.
        unsafe { Self::dot(sums, weights, x, quad) }
    }
    #[inline(always)]
    unsafe fn of_nibbles(sums: Self::Sums) -> Self::Sums {
        sums
    }
    #[inline(always)]
    unsafe fn sums_to_f32(sums: Self::Sums) -> Self::V {
        sums.map(|sum| sum as f32)
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self::V {
        // SAFETY: the caller gives LANES readable elements.
        let bits = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        bits.map(|bits| half::f16::from_bits(bits).to_f32())
    }
    unsafe fn int8_tile<W: Weights, const R: usize>(p: TileProduct<InputGroup>) {
        // SAFETY: passed on to the caller.
        unsafe { int8::register_tile::<Self, W, R>(&p) }
    }
}

impl ToBytes for Portable {
    #[inline(always)]
    unsafe fn to_bytes(
        values: [[Self::V; 2]; ROUNDED_AT_ONCE],
    ) -> ([[i8; GROUP]; ROUNDED_AT_ONCE], [i32; ROUNDED_AT_ONCE]) {
        // SAFETY: passed on to the caller.
        let rounded = values.map(|halves| halves.map(|half| unsafe { Self::round(half) }));
        let bytes = rounded.map(|halves| std::array::from_fn(|i| halves[i / LANES][i % LANES] as i8));
        (bytes, bytes.map(|bytes| bytes.iter().map(|&quant| i32::from(quant)).sum()))
    }
}

impl Bf16 for Portable {
    const BF16_CHAINS: usize = 4;

    #[inline(always)]
    unsafe fn fma_or_zero(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| bf16::fma_or_zero(a[i], b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn add_or_zero(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, bf16::add_or_zero)
    }
    unsafe fn bf16_tile<O: Order, const R: usize>(p: TileProduct<Floats>) {
        // SAFETY: passed on to the caller.
        unsafe { bf16::register_tile::<Self, O, R>(&p) }
    }
}
