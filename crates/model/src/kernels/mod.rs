//! CPU kernels, written once over [`simd::Simd`] and compiled for each instruction set.
//!
//! [`Kernels`] is a table of entry points for one set, chosen once at run time. Results of one set never depend on the
//! number of rows or threads; different sets may differ in the last bits.

mod elementwise;
mod portable;
mod simd;
mod tile;
#[cfg(target_arch = "x86_64")]
mod x86;

use portable::Portable;
pub(crate) use simd::LANES;
pub(crate) use tile::Product;
#[cfg(target_arch = "x86_64")]
use x86::{Avx2, Avx512};

/// The kernels of one instruction set.
pub(crate) struct Kernels {
    /// `avx512`, `avx2` or `portable`.
    pub(crate) name: &'static str,
    product_f32: unsafe fn(Product<f32>),
    product_bf16: unsafe fn(Product<u16>),
    rms_norm: unsafe fn(&[f32], &[f32], f32, &mut [f32]),
    layer_norm: unsafe fn(&[f32], &[f32], f32, &mut [f32]),
    softmax_terms: unsafe fn(&mut [f32]) -> f32,
    scale: unsafe fn(&mut [f32], f32),
    silu_mul: unsafe fn(&[f32], &[f32], &mut [f32]),
}

/// Instantiates the table for `$set`; `$features` let the compiler use its instructions in the inlined bodies.
macro_rules! kernels {
    ($table:ident, $name:literal, $set:ty $(, #[$features:meta])?) => {
        static $table: Kernels = {
            $(#[$features])?
            unsafe fn product_f32(p: Product<f32>) {
                // SAFETY: passed on to the caller.
                unsafe { tile::product::<$set, f32>(p) }
            }
            $(#[$features])?
            unsafe fn product_bf16(p: Product<u16>) {
                // SAFETY: passed on to the caller.
                unsafe { tile::product::<$set, u16>(p) }
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
            unsafe fn silu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) {
                // SAFETY: the instruction set was detected.
                unsafe { elementwise::silu_mul::<$set>(gate, up, out) }
            }
            Kernels { name: $name, product_f32, product_bf16, rms_norm, layer_norm, softmax_terms, scale, silu_mul }
        };
    };
}

kernels!(PORTABLE, "portable", Portable);
#[cfg(target_arch = "x86_64")]
kernels!(AVX2, "avx2", Avx2, #[target_feature(enable = "avx2,fma")]);
#[cfg(target_arch = "x86_64")]
kernels!(AVX512, "avx512", Avx512, #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma")]);

impl Kernels {
    /// The tables that this processor can run, the fastest first.
    pub(crate) fn available() -> Vec<&'static Kernels> {
        let mut tables: Vec<&'static Kernels> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if ["avx512f", "avx512bw", "avx512vl"].into_iter().all(detected) {
                tables.push(&AVX512);
            }
            if ["avx2", "fma"].into_iter().all(detected) {
                tables.push(&AVX2);
            }
        }
        tables.push(&PORTABLE);
        tables
    }

    /// The fastest table of this processor.
    pub(crate) fn detect() -> &'static Kernels {
        Self::available()[0]
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
    pub(crate) unsafe fn product_bf16(&self, p: Product<u16>) {
        // SAFETY: the set was detected; the pointers are the caller's promise.
        unsafe { (self.product_bf16)(p) }
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

    /// See [`elementwise::silu_mul`].
    pub(crate) fn silu_mul(&self, gate: &[f32], up: &[f32], out: &mut [f32]) {
        // SAFETY: the set was detected.
        unsafe { (self.silu_mul)(gate, up, out) }
    }
}

/// Whether the processor has a feature, by name.
#[cfg(target_arch = "x86_64")]
fn detected(feature: &str) -> bool {
    match feature {
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512bw" => is_x86_feature_detected!("avx512bw"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        _ => false,
    }
}

/// Where element `i` of a group of 32 bf16 values is stored, so that one load and two cheap instructions give two
/// vectors: the first sixteen in the even halves, the others in the odd ones.
pub(crate) fn interleave(i: usize) -> usize {
    2 * (i % LANES) + i / LANES % 2 + i / (2 * LANES) * (2 * LANES)
}
