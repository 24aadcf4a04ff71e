//! The tables, one for each set of instructions: every entry is the same code, compiled for the set.

use super::bf16::{self, Bf16Group, Bf16Line, Dots, Floats, Tiles};
use super::blocks::BlockProduct;
use super::byte_values::{self, ByteValues};
use super::entries::{AMX_NAME, BF16_NAME, Kernels};
use super::int8::{self, InputGroup, Q4, Q8};
use super::portable::Portable;
use super::simd::Product;
use super::values::{self, ValueGroup};
#[cfg(target_arch = "x86_64")]
use super::x86::{self, Avx2, Avx512, NativeBits};
use super::{elementwise, tile};

/// Instantiates the table for `$set`, with `$int8` for products of bytes, `$tiles` and `$dots` for those of bf16 in either
/// order, from inputs that are kept as `$for_tiles` and `$for_dots`, and `$values` for sums of values in the order of tiles;
/// `$features` let the compiler use its instructions in the inlined bodies.
macro_rules! kernels {
    (
        $table:ident, $name:expr, $set:ty, int8 $int8:ty,
        tiles $tiles:path as $for_tiles:ty, dots $dots:path as $for_dots:ty,
        values $values:path $(, #[$features:meta])?
    ) => {
        pub(super) static $table: Kernels = {
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
            unsafe fn add_byte_values(p: &ByteValues<'_>) {
                // SAFETY: passed on to the caller.
                unsafe { byte_values::add::<$int8>(p) }
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
            unsafe fn round_products_to_int8(values: &[f32], factors: &[f32], group: &mut InputGroup) {
                // SAFETY: the instruction set was detected.
                unsafe { int8::quantize_products::<$set>(values, factors, group) }
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
                add_byte_values,
                product_q8,
                product_q4,
                round_for_tiles,
                round_for_dots,
                round_to_int8,
                round_products_to_int8,
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
