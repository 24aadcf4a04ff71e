//! The tables, one for each set of instructions: every entry is the same code, compiled for the set.

#[cfg(target_arch = "aarch64")]
use super::aarch64::Neon;
use super::bf16::{self, Bf16Group, Bf16Line, Dots, Floats, Tiles};
use super::bf16_kernels::Bf16Kernels;
use super::blocks::BlockProduct;
use super::byte_values::{self, ByteValues};
#[cfg(target_arch = "x86_64")]
use super::entries::{AMX_NAME, BF16_NAME};
use super::entries::{Kernels, PORTABLE_NAME};
use super::int8::{self, InputGroup, Q4, Q8};
use super::portable::Portable;
use super::rounding::{self, GroupsAt, Unrounded};
use super::simd::Product;
use super::values::{self, ValueGroup};
#[cfg(target_arch = "x86_64")]
use super::x86::{self, Avx2, Avx512, NativeBits};
use super::{elementwise, tile};

/// Those of bf16 in one order: `$product` of inputs that are kept as `$input`, and `$values` for sums of values.
macro_rules! bf16_kernels {
    ($product:path as $input:ty, values $values:path $(, #[$features:meta])?) => {{
        $(#[$features])?
        unsafe fn product(p: BlockProduct<Bf16Line>) {
            // SAFETY: passed on to the caller.
            unsafe { $product(p.of()) }
        }
        $(#[$features])?
        unsafe fn add_values(p: &ValueGroup<'_>) {
            // SAFETY: passed on to the caller.
            unsafe { $values(p) }
        }
        $(#[$features])?
        unsafe fn round(values: &[f32], lines: &mut [Bf16Line]) {
            <$input>::round(values, lines);
        }
        Bf16Kernels { lines: <$input>::LINES, product, add_values, round }
    }};
}

/// Instantiates the table for `$set`, with `$int8` for products of bytes, and what [`bf16_kernels`] takes for the order of
/// tiles and for that of dot products; `$features` let the compiler use its instructions in the inlined bodies.
macro_rules! kernels {
    (
        $table:ident, $name:expr, $set:ty, int8 $int8:ty,
        tiles $tiles:path as $for_tiles:ty, values $tile_values:path,
        dots $dots:path as $for_dots:ty, values $dot_values:path $(, #[$features:meta])?
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
            unsafe fn round_to_int8(rows: &Unrounded<'_>, to: &GroupsAt) {
                // SAFETY: passed on to the caller.
                unsafe { rounding::round::<$set>(rows, to) }
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
            unsafe fn silu_mul(rows: &mut [f32], width: usize) {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::silu_mul::<$set>(rows, width) }
            }
            $(#[$features])?
            unsafe fn read(x: &[f32], rows: usize) -> f32 {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::read::<$set>(x, rows) }
            }
            $(#[$features])?
            unsafe fn multiply_adds(rounds: usize) -> f32 {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::multiply_adds::<$set>(rounds) }
            }
            Kernels {
                name: $name,
                tiles: bf16_kernels!($tiles as $for_tiles, values $tile_values $(, #[$features])?),
                dots: bf16_kernels!($dots as $for_dots, values $dot_values $(, #[$features])?),
                product_f32,
                product_widened,
                add_byte_values,
                product_q8,
                product_q4,
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
    PORTABLE, PORTABLE_NAME, Portable, int8 Portable,
    tiles bf16::product::<Portable, Tiles> as Floats, values values::add::<Portable, Tiles>,
    dots bf16::product::<Portable, Dots> as Floats, values values::add::<Portable, Dots>
);
#[cfg(target_arch = "x86_64")]
kernels!(
    AVX2, "avx2", Avx2<false>, int8 Avx2<false>,
    tiles x86::product_bf16::<Avx2<false>, Tiles> as Floats, values x86::add_values::<Avx2<false>, Tiles>,
    dots x86::product_bf16::<Avx2<false>, Dots> as Floats, values x86::add_values::<Avx2<false>, Dots>,
    #[target_feature(enable = "avx2,fma,f16c")]
);
#[cfg(target_arch = "x86_64")]
kernels!(
    AVX_VNNI, "avxvnni", Avx2<true>, int8 Avx2<true>,
    tiles x86::product_bf16::<Avx2<true>, Tiles> as Floats, values x86::add_values::<Avx2<true>, Tiles>,
    dots x86::product_bf16::<Avx2<true>, Dots> as Floats, values x86::add_values::<Avx2<true>, Dots>,
    #[target_feature(enable = "avxvnni,avx2,fma,f16c")]
);
#[cfg(target_arch = "x86_64")]
kernels!(
    AVX512, "avx512", Avx512, int8 Avx2<false>,
    tiles x86::product_bf16::<Avx512, Tiles> as Floats, values x86::add_values::<Avx512, Tiles>,
    dots x86::product_bf16::<Avx512, Dots> as Floats, values x86::add_values::<Avx512, Dots>,
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
);
#[cfg(target_arch = "x86_64")]
kernels!(
    AVX512_VNNI, "avx512vnni", Avx512, int8 Avx512,
    tiles x86::product_bf16::<Avx512, Tiles> as Floats, values x86::add_values::<Avx512, Tiles>,
    dots x86::product_bf16::<Avx512, Dots> as Floats, values x86::add_values::<Avx512, Dots>,
    #[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
);
#[cfg(target_arch = "x86_64")]
kernels!(
    AVX512_BF16, BF16_NAME, Avx512, int8 Avx512,
    tiles x86::product_bf16::<Avx512, Tiles> as Floats, values x86::add_values::<Avx512, Tiles>,
    dots x86::product_bf16_by_dots as NativeBits, values x86::add_values::<Avx512, Dots>,
    #[target_feature(enable = "avx512bf16,avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
);
// The instruction for dots takes longer than multiply-adds of floats where there are tiles (Sapphire Rapids).
#[cfg(target_arch = "x86_64")]
kernels!(
    AMX, AMX_NAME, Avx512, int8 Avx512,
    tiles x86::product_bf16_in_tiles as NativeBits, values x86::add_values::<Avx512, Tiles>,
    dots x86::product_bf16::<Avx512, Dots> as Floats, values x86::add_values::<Avx512, Dots>,
    #[target_feature(enable = "avx512bf16,avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
);
#[cfg(target_arch = "aarch64")]
kernels!(
    NEON, "neon", Neon<false>, int8 Neon<false>,
    tiles bf16::product::<Neon<false>, Tiles> as Floats, values values::add::<Neon<false>, Tiles>,
    dots bf16::product::<Neon<false>, Dots> as Floats, values values::add::<Neon<false>, Dots>
);
#[cfg(target_arch = "aarch64")]
kernels!(
    NEON_DOTS, "neon-dots", Neon<true>, int8 Neon<true>,
    tiles bf16::product::<Neon<true>, Tiles> as Floats, values values::add::<Neon<true>, Tiles>,
    dots bf16::product::<Neon<true>, Dots> as Floats, values values::add::<Neon<true>, Dots>
);
