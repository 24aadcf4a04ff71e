//! Which instruction sets this processor has, and the kernel lets us use.

use super::amx;
use super::dots::{self, Dot};

/// What was found.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sets {
    /// AVX2 with FMA and 16-bit floats.
    pub(in super::super) avx2: bool,
    /// Products of bytes beside AVX2.
    pub(in super::super) avx_vnni: bool,
    /// AVX-512 as far as kernels need it.
    pub(in super::super) avx512: bool,
    /// Products of bytes of AVX-512.
    pub(in super::super) vnni: bool,
    /// Dot products of bf16.
    pub(in super::super) bf16: Dot,
    /// Tiles of bf16.
    pub(in super::super) amx: bool,
}

impl Sets {
    /// Asks the processor.
    pub(in super::super) fn detect() -> Self {
        let avx2 =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        let avx_vnni = avx2 && is_x86_feature_detected!("avxvnni");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        let vnni = avx512 && is_x86_feature_detected!("avx512vnni");
        let bf16 = if vnni { dots::tried() } else { Dot::None };
        // Inputs of tiles are rounded by an instruction of AVX512-BF16.
        let amx = vnni && is_x86_feature_detected!("avx512bf16") && amx::available();
        Self { avx2, avx_vnni, avx512, vnni, bf16, amx }
    }
}
