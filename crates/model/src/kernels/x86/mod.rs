//! The instruction sets of x86-64.

mod amx;
mod avx2;
mod avx512;
mod bits;
mod bytes;
mod denormals;
mod detect;
mod dots;

pub(super) use amx::product_bf16 as product_bf16_in_tiles;
pub(super) use avx2::Avx2;
pub(super) use avx512::Avx512;
pub(super) use denormals::{add_values, product_bf16};
pub(super) use detect::Sets;
pub(super) use dots::{Dot, NativeBits, product_bf16 as product_bf16_by_dots};
