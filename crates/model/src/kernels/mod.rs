//! CPU kernels, written once over [`simd::Simd`] and compiled for each instruction set.
//!
//! [`Kernels`] is a table of entry points for one set, chosen once at run time. Results are the same bits whatever the
//! set, the number of rows, and the number of threads.

mod bf16;
mod blocks;
mod elementwise;
mod int8;
mod portable;
mod simd;
mod tile;
mod values;
#[cfg(target_arch = "x86_64")]
mod x86;

use bf16::{Bf16Group, Dots, Floats, Tiles};
pub(crate) use bf16::{Bf16Line, TILE_BYTES, TILE_STRIPS, place_in_tile, round as round_to_bf16};
pub(crate) use blocks::{BlockProduct, GROUP};
pub(crate) use elementwise::CHAINS;
pub(crate) use int8::{InputGroup, LARGEST, OUTPUTS, Q4_BYTES, Q8_BYTES, QUAD, SCALES_BYTES};
use int8::{Q4, Q8};
use portable::Portable;
pub(crate) use simd::{LANES, Product};
pub(crate) use values::{ValueGroup, ValueRun};
#[cfg(target_arch = "x86_64")]
use x86::{Avx2, Avx512, Dot, NativeBits, Sets};

use crate::arithmetic::Arithmetic;

/// The kernels of one instruction set.
pub(crate) struct Kernels {
    /// `amx`, `avx512bf16`, `avx512vnni`, `avx512`, `avx2` or `portable`.
    pub(crate) name: &'static str,
    /// Lines of a group of inputs that [`Self::round_for_tiles`] rounds.
    pub(crate) tile_lines: usize,
    /// The same of [`Self::round_for_dots`].
    pub(crate) dot_lines: usize,
    product_f32: unsafe fn(Product<f32>),
    product_widened: unsafe fn(Product<u16>),
    product_bf16_tiles: unsafe fn(BlockProduct<Bf16Line>),
    product_bf16_dots: unsafe fn(BlockProduct<Bf16Line>),
    add_values: unsafe fn(&ValueGroup<'_>),
    product_q8: unsafe fn(BlockProduct<InputGroup>),
    product_q4: unsafe fn(BlockProduct<InputGroup>),
    round_for_tiles: unsafe fn(&[f32], &mut [Bf16Line]),
    round_for_dots: unsafe fn(&[f32], &mut [Bf16Line]),
    round_to_int8: unsafe fn(&[f32], *mut InputGroup, usize),
    rms_norm: unsafe fn(&[f32], &[f32], f32, &mut [f32]),
    layer_norm: unsafe fn(&[f32], &[f32], f32, &mut [f32]),
    softmax_terms: unsafe fn(&mut [f32]) -> f32,
    scale: unsafe fn(&mut [f32], f32),
    add: unsafe fn(&mut [f32], &[f32]),
    rotate: unsafe fn(&mut [f32], &[f32], &[f32]),
    silu_mul: unsafe fn(&[f32], &[f32], &mut [f32]),
    read: unsafe fn(&[f32]) -> f32,
    multiply_adds: unsafe fn(usize) -> f32,
}

/// The name of the table that multiplies tiles.
const AMX_NAME: &str = "amx";

/// The name of the table with dot products of bf16.
const BF16_NAME: &str = "avx512bf16";

/// Instantiates the table for `$set`, with `$int8` for products of bytes, `$tiles` and `$dots` for those of bf16 in either
/// order, from inputs that are kept as `$for_tiles` and `$for_dots`, and `$values` for sums of values in the order of tiles;
/// `$features` let the compiler use its instructions in the inlined bodies.
macro_rules! kernels {
    (
        $table:ident, $name:expr, $set:ty, int8 $int8:ty,
        tiles $tiles:path as $for_tiles:ty, dots $dots:path as $for_dots:ty,
        values $values:path $(, #[$features:meta])?
    ) => {
        static $table: Kernels = {
            $(#[$features])?
            unsafe fn product_f32(p: Product<f32>) {
                // SAFETY: passed on to the caller.
                unsafe { tile::product::<$set, f32>(p) }
            }
            $(#[$features])?
            unsafe fn product_widened(p: Product<u16>) {
                // SAFETY: passed on to the caller.
                unsafe { tile::product::<$set, u16>(p) }
            }
            $(#[$features])?
            unsafe fn product_bf16_tiles(p: BlockProduct<Bf16Line>) {
                // SAFETY: passed on to the caller.
                unsafe { $tiles(p.of()) }
            }
            $(#[$features])?
            unsafe fn product_bf16_dots(p: BlockProduct<Bf16Line>) {
                // SAFETY: passed on to the caller.
                unsafe { $dots(p.of()) }
            }
            $(#[$features])?
            unsafe fn add_values(p: &ValueGroup<'_>) {
                // SAFETY: passed on to the caller.
                unsafe { $values(p) }
            }
            $(#[$features])?
            unsafe fn product_q8(p: BlockProduct<InputGroup>) {
                // SAFETY: passed on to the caller.
                unsafe { int8::product::<$int8, Q8>(p) }
            }
            $(#[$features])?
            unsafe fn product_q4(p: BlockProduct<InputGroup>) {
                // SAFETY: passed on to the caller.
                unsafe { int8::product::<$int8, Q4>(p) }
            }
            $(#[$features])?
            unsafe fn round_for_tiles(values: &[f32], lines: &mut [Bf16Line]) {
                <$for_tiles>::round(values, lines);
            }
            $(#[$features])?
            unsafe fn round_for_dots(values: &[f32], lines: &mut [Bf16Line]) {
                <$for_dots>::round(values, lines);
            }
            $(#[$features])?
            unsafe fn round_to_int8(values: &[f32], groups: *mut InputGroup, step: usize) {
                // SAFETY: passed on to the caller.
                unsafe { int8::quantize::<$set>(values, groups, step) }
            }
            $(#[$features])?
            unsafe fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::rms_norm::<$set>(x, weight, eps, out) }
            }
            $(#[$features])?
            unsafe fn layer_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::layer_norm::<$set>(x, weight, eps, out) }
            }
            $(#[$features])?
            unsafe fn softmax_terms(scores: &mut [f32]) -> f32 {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::softmax_terms::<$set>(scores) }
            }
            $(#[$features])?
            unsafe fn scale(x: &mut [f32], factor: f32) {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::scale::<$set>(x, factor) }
            }
            $(#[$features])?
            unsafe fn add(x: &mut [f32], y: &[f32]) {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::add::<$set>(x, y) }
            }
            $(#[$features])?
            unsafe fn rotate(points: &mut [f32], cos: &[f32], sin: &[f32]) {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::rotate::<$set>(points, cos, sin) }
            }
            $(#[$features])?
            unsafe fn silu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::silu_mul::<$set>(gate, up, out) }
            }
            $(#[$features])?
            unsafe fn read(x: &[f32]) -> f32 {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::read::<$set>(x) }
            }
            $(#[$features])?
            unsafe fn multiply_adds(rounds: usize) -> f32 {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::multiply_adds::<$set>(rounds) }
            }
            Kernels {
                name: $name,
                tile_lines: <$for_tiles>::LINES,
                dot_lines: <$for_dots>::LINES,
                product_f32,
                product_widened,
                product_bf16_tiles,
                product_bf16_dots,
                add_values,
                product_q8,
                product_q4,
                round_for_tiles,
                round_for_dots,
                round_to_int8,
                rms_norm,
                layer_norm,
                softmax_terms,
                scale,
                add,
                rotate,
                silu_mul,
                read,
                multiply_adds,
            }
        };
    };
}

kernels!(
    PORTABLE, "portable", Portable, int8 Portable,
    tiles bf16::product::<Portable, Tiles> as Floats, dots bf16::product::<Portable, Dots> as Floats,
    values values::add::<Portable>
);
#[cfg(target_arch = "x86_64")]
kernels!(
    AVX2, "avx2", Avx2, int8 Avx2,
    tiles x86::product_bf16::<Avx2, Tiles> as Floats, dots x86::product_bf16::<Avx2, Dots> as Floats,
    values x86::add_values::<Avx2>,
    #[target_feature(enable = "avx2,fma,f16c")]
);
#[cfg(target_arch = "x86_64")]
kernels!(
    AVX512, "avx512", Avx512, int8 Avx2,
    tiles x86::product_bf16::<Avx512, Tiles> as Floats, dots x86::product_bf16::<Avx512, Dots> as Floats,
    values x86::add_values::<Avx512>,
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
);
#[cfg(target_arch = "x86_64")]
kernels!(
    AVX512_VNNI, "avx512vnni", Avx512, int8 Avx512,
    tiles x86::product_bf16::<Avx512, Tiles> as Floats, dots x86::product_bf16::<Avx512, Dots> as Floats,
    values x86::add_values::<Avx512>,
    #[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
);
#[cfg(target_arch = "x86_64")]
kernels!(
    AVX512_BF16, BF16_NAME, Avx512, int8 Avx512,
    tiles x86::product_bf16::<Avx512, Tiles> as Floats, dots x86::product_bf16_by_dots as NativeBits,
    values x86::add_values::<Avx512>,
    #[target_feature(enable = "avx512bf16,avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
);
// The instruction for dots takes longer than multiply-adds of floats where there are tiles (Sapphire Rapids).
#[cfg(target_arch = "x86_64")]
kernels!(
    AMX, AMX_NAME, Avx512, int8 Avx512,
    tiles x86::product_bf16_in_tiles as NativeBits, dots x86::product_bf16::<Avx512, Dots> as Floats,
    values x86::add_values::<Avx512>,
    #[target_feature(enable = "avx512bf16,avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
);

impl Kernels {
    /// The tables that this processor can run, the fastest first.
    pub(crate) fn available() -> Vec<&'static Kernels> {
        let mut tables: Vec<&'static Kernels> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let sets = Sets::detect();
            let (fast_dots, slow_dots) = (sets.bf16 == Dot::Fast, sets.bf16 == Dot::Slow);
            let offered = [
                (sets.amx, &AMX),
                (fast_dots, &AVX512_BF16),
                (sets.vnni, &AVX512_VNNI),
                (slow_dots, &AVX512_BF16),
                (sets.avx512, &AVX512),
                (sets.avx2, &AVX2),
            ];
            tables.extend(offered.into_iter().filter_map(|(has, table)| has.then_some(table)));
        }
        tables.push(&PORTABLE);
        tables
    }

    /// The fastest table of this processor.
    pub(crate) fn detect() -> &'static Kernels {
        Self::available()[0]
    }

    /// The arithmetic of 16-bit floats that this set has instructions for.
    pub(crate) fn arithmetic_of_16_bits(&self) -> Option<Arithmetic> {
        match self.name {
            AMX_NAME => Some(Arithmetic::Bf16),
            BF16_NAME => Some(Arithmetic::Bf16Dot),
            _ => None,
        }
    }

    /// See [`tile::product`].
    ///
    /// # Safety
    /// Every pointer of `p` is valid for the extent that its row counts and strides give.
    pub(crate) unsafe fn product_f32(&self, p: Product<f32>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_f32)(p) }
    }

    /// See [`tile::product`]; weights are interleaved bf16.
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn product_widened(&self, p: Product<u16>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_widened)(p) }
    }

    /// See [`Tiles`]; blocks of [`TILE_BYTES`], strips in fours.
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn product_bf16_tiles(&self, p: BlockProduct<Bf16Line>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_bf16_tiles)(p) }
    }

    /// See [`Dots`]; blocks of [`TILE_BYTES`].
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn product_bf16_dots(&self, p: BlockProduct<Bf16Line>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_bf16_dots)(p) }
    }

    /// See [`values::add`].
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn add_values(&self, p: &ValueGroup<'_>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.add_values)(p) }
    }

    /// See [`Q8`].
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn product_q8(&self, p: BlockProduct<InputGroup>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_q8)(p) }
    }

    /// See [`Q4`].
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn product_q4(&self, p: BlockProduct<InputGroup>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_q4)(p) }
    }

    /// Rounds to what [`Self::product_bf16_tiles`] takes.
    pub(crate) fn round_for_tiles(&self, values: &[f32], lines: &mut [Bf16Line]) {
        // SAFETY: the set was detected.
        unsafe { (self.round_for_tiles)(values, lines) }
    }

    /// Rounds to what [`Self::product_bf16_dots`] takes.
    pub(crate) fn round_for_dots(&self, values: &[f32], lines: &mut [Bf16Line]) {
        // SAFETY: the set was detected.
        unsafe { (self.round_for_dots)(values, lines) }
    }

    /// See [`int8::quantize`].
    ///
    /// # Safety
    /// As for [`Self::product_f32`].
    pub(crate) unsafe fn round_to_int8(&self, values: &[f32], groups: *mut InputGroup, step: usize) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.round_to_int8)(values, groups, step) }
    }

    /// See [`elementwise::rms_norm`].
    pub(crate) fn rms_norm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.rms_norm)(x, weight, eps, out) }
    }

    /// See [`elementwise::layer_norm`].
    pub(crate) fn layer_norm(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.layer_norm)(x, weight, eps, out) }
    }

    /// See [`elementwise::softmax_terms`].
    pub(crate) fn softmax_terms(&self, scores: &mut [f32]) -> f32 {
        // SAFETY: the set was detected.
        unsafe { (self.softmax_terms)(scores) }
    }

    /// See [`elementwise::scale`].
    pub(crate) fn scale(&self, x: &mut [f32], factor: f32) {
        // SAFETY: the set was detected.
        unsafe { (self.scale)(x, factor) }
    }

    /// See [`elementwise::add`].
    pub(crate) fn add(&self, x: &mut [f32], y: &[f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.add)(x, y) }
    }

    /// See [`elementwise::rotate`].
    pub(crate) fn rotate(&self, points: &mut [f32], cos: &[f32], sin: &[f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.rotate)(points, cos, sin) }
    }

    /// See [`elementwise::silu_mul`].
    pub(crate) fn silu_mul(&self, gate: &[f32], up: &[f32], out: &mut [f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.silu_mul)(gate, up, out) }
    }

    /// See [`elementwise::read`].
    pub(crate) fn read(&self, x: &[f32]) -> f32 {
        // SAFETY: the set was detected.
        unsafe { (self.read)(x) }
    }

    /// See [`elementwise::multiply_adds`].
    pub(crate) fn multiply_adds(&self, rounds: usize) -> f32 {
        // SAFETY: the set was detected.
        unsafe { (self.multiply_adds)(rounds) }
    }
}

/// Where element `i` of a group of 32 bf16 values is stored, so that one load and two cheap instructions give two
/// vectors: the first sixteen in the even halves, the others in the odd ones.
pub(crate) fn interleave(i: usize) -> usize {
    2 * (i % LANES) + i / LANES % 2 + i / (2 * LANES) * (2 * LANES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values in -1..1 that no two places share.
    fn noise(len: usize, seed: u32) -> Vec<f32> {
        let mix = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
        (0..len as u32).map(|i| mix(i) as f32 / 2_f32.powi(31) - 1.0).collect()
    }

    /// Sizes of a product.
    #[derive(Clone, Copy)]
    struct Sizes {
        rows: usize,
        depth: usize,
        vectors: usize,
    }

    /// `x` (rows, depth) times `w` (depth, vectors * LANES), by the kernel.
    fn product(kernels: &Kernels, x: &[f32], w: &[f32], Sizes { rows, depth, vectors }: Sizes) -> Vec<f32> {
        let mut acc = vec![0.0; rows * vectors * LANES];
        // SAFETY: all three slices are as long as the strides say.
        unsafe {
            kernels.product_f32(Product {
                x: x.as_ptr(),
                x_stride: depth,
                rows,
                w: w.as_ptr(),
                w_stride: vectors * LANES,
                pair_stride: 2 * LANES,
                depth,
                vectors,
                acc: acc.as_mut_ptr(),
                acc_stride: vectors * LANES,
            });
        }
        acc
    }

    #[test]
    fn products_are_right_and_have_the_same_bits_for_any_number_of_rows() {
        // The second depth is walked in several steps.
        for (kernels, depth) in Kernels::available().into_iter().flat_map(|kernels| [(kernels, 37), (kernels, 300)]) {
            for vectors in 1..=5 {
                let width = vectors * LANES;
                let (x, w) = (noise(30 * depth, 1), noise(depth * width, 2));
                let one = Sizes { rows: 1, depth, vectors };
                let alone: Vec<f32> = x.chunks(depth).flat_map(|x| product(kernels, x, &w, one)).collect();
                for rows in 1..=30 {
                    let together = product(kernels, &x[..rows * depth], &w, Sizes { rows, ..one });
                    assert_eq!(together, alone[..rows * width], "{}: {rows} rows, {vectors} vectors", kernels.name);
                }
                for (i, found) in alone.iter().enumerate() {
                    let (row, column) = (i / width, i % width);
                    let exact: f64 =
                        (0..depth).map(|d| f64::from(x[row * depth + d]) * f64::from(w[d * width + column])).sum();
                    assert!((f64::from(*found) - exact).abs() < 3e-5, "{}: {found} for {exact}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn a_product_with_bf16_has_the_bits_of_the_same_weights_in_f32() {
        let (depth, vectors, rows) = (300, 4, 30);
        let width = vectors * LANES;
        let x = noise(rows * depth, 1);
        let w: Vec<half::bf16> = noise(depth * width, 2).into_iter().map(half::bf16::from_f32).collect();
        let widened: Vec<f32> = w.iter().map(|w| w.to_f32()).collect();
        let mut interleaved = vec![0; w.len()];
        for (input, weights) in w.chunks(width).enumerate() {
            let at = |o: usize| input * width + interleave(o);
            weights.iter().enumerate().for_each(|(o, w)| interleaved[at(o)] = w.to_bits());
        }
        for kernels in Kernels::available() {
            for rows in 1..=rows {
                let sizes = Sizes { rows, depth, vectors };
                let expected = product(kernels, &x[..rows * depth], &widened, sizes);
                let mut acc = vec![0.0; rows * width];
                // SAFETY: all three slices are as long as the strides say.
                unsafe {
                    kernels.product_widened(Product {
                        x: x.as_ptr(),
                        x_stride: depth,
                        rows,
                        w: interleaved.as_ptr(),
                        w_stride: width,
                        pair_stride: 2 * LANES,
                        depth,
                        vectors,
                        acc: acc.as_mut_ptr(),
                        acc_stride: width,
                    });
                }
                assert_eq!(acc, expected, "{}: {rows} rows", kernels.name);
            }
        }
    }

    #[test]
    fn softmax_terms_are_exponentials_of_the_distance_to_the_largest() {
        for kernels in Kernels::available() {
            for len in [1, 5, 16, 17, 100] {
                let scores: Vec<f32> = noise(len, 3).iter().map(|v| v * 30.0).collect();
                let mut terms = scores.clone();
                let total = kernels.softmax_terms(&mut terms);
                let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let exact: Vec<f64> = scores.iter().map(|s| f64::from(s - top).exp()).collect();
                let close = |a: f32, b: f64| (f64::from(a) - b).abs() <= 3e-7 * b + 1e-30;
                assert!(terms.iter().zip(&exact).all(|(a, b)| close(*a, *b)), "{}", kernels.name);
                assert!((f64::from(total) / exact.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn norms_and_gates_follow_their_formulas() {
        for kernels in Kernels::available() {
            for len in [1, 16, 50, 64] {
                let (x, w) = (noise(len, 4), noise(len, 5));
                let mut out = vec![0.0; len];
                let (n, eps) = (len as f64, 1e-5);
                let mean = x.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
                let square = x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n;
                let check = |out: &[f32], f: &dyn Fn(f64, f64) -> f64| {
                    for ((o, x), w) in out.iter().zip(&x).zip(&w) {
                        let exact = f(f64::from(*x), f64::from(*w));
                        assert!((f64::from(*o) - exact).abs() < 1e-5 * exact.abs() + 1e-6, "{}", kernels.name);
                    }
                };
                kernels.rms_norm(&x, &w, eps as f32, &mut out);
                check(&out, &|x, w| x / (square + eps).sqrt() * w);
                let variance = x.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n;
                if len > 1 {
                    kernels.layer_norm(&x, &w, eps as f32, &mut out);
                    check(&out, &|x, w| (x - mean) / (variance + eps).sqrt() * w);
                }
                kernels.silu_mul(&x, &w, &mut out);
                check(&out, &|x, w| x / (1.0 + (-x).exp()) * w);
            }
        }
    }

    #[test]
    fn all_tables_have_the_same_bits() {
        let of = |kernels: &Kernels| {
            let (depth, vectors, rows, len) = (300, 5, 7, 83);
            let (x, w) = (noise(rows * depth, 1), noise(depth * vectors * LANES, 2));
            let mut found = product(kernels, &x, &w, Sizes { rows, depth, vectors });
            let (x, w) = (noise(len, 3).iter().map(|v| v * 20.0).collect::<Vec<_>>(), noise(len, 4));
            let mut out = vec![0.0; len];
            kernels.rms_norm(&x, &w, 1e-5, &mut out);
            found.extend(&out);
            kernels.layer_norm(&x, &w, 1e-5, &mut out);
            found.extend(&out);
            kernels.silu_mul(&x, &w, &mut out);
            found.extend(&out);
            out.clone_from(&x);
            found.push(kernels.softmax_terms(&mut out));
            kernels.scale(&mut out, 0.37);
            found.extend(&out);
            kernels.add(&mut out, &x);
            found.extend(&out);
            kernels.rotate(&mut out[..len / 2 * 2], &x[..len / 2], &w[..len / 2]);
            found.extend(&out);
            found.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        for kernels in Kernels::available() {
            assert!(of(kernels) == of(&PORTABLE), "{}", kernels.name);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_system_says_of_the_processor_is_used() {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let said = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        let used = |name: &str| Kernels::available().iter().any(|kernels| kernels.name == name);
        for (name, flag) in [("avx2", "avx2"), ("avx512vnni", "avx512_vnni"), ("amx", "amx_bf16")] {
            assert_eq!(used(name), said(flag), "{name}");
        }
        assert!(said("avx512_bf16") || !used(BF16_NAME), "used only if it is there, and has the bits that it should");
    }

    #[test]
    fn interleaving_is_a_permutation_of_each_group() {
        let mut places: Vec<usize> = (0..64).map(interleave).collect();
        assert!(places[..32].iter().all(|&place| place < 32));
        places.sort_unstable();
        assert!(places.into_iter().eq(0..64));
    }
}
