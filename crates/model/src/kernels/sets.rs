//! Which instruction sets that kernels are written for this processor has.

#[cfg(target_arch = "x86_64")]
use super::x86::{Dot, Sets};

/// An instruction set that kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionSet {
    /// Its name, as its maker spells it.
    pub name: &'static str,
    /// Whether this processor has it, and the system lets programs use it.
    pub present: bool,
}

/// Those of this kind of processor, the oldest first; none where all kernels are portable code.
#[cfg(target_arch = "x86_64")]
pub(crate) fn instruction_sets() -> Vec<InstructionSet> {
    let Sets { avx2, avx_vnni, avx512, vnni, bf16, amx } = Sets::detect();
    let named = [
        ("AVX2", avx2),
        ("AVX-VNNI", avx_vnni),
        ("AVX-512", avx512),
        ("AVX-512 VNNI", vnni),
        ("AVX-512 BF16", bf16 != Dot::None),
        ("AMX-BF16", amx),
    ];
    named.into_iter().map(|(name, present)| InstructionSet { name, present }).collect()
}

/// Those of this kind of processor, the oldest first; none where all kernels are portable code.
#[cfg(target_arch = "aarch64")]
pub(crate) fn instruction_sets() -> Vec<InstructionSet> {
    vec![
        InstructionSet { name: "NEON", present: true },
        InstructionSet { name: "NEON dot products", present: super::aarch64::has_dots() },
    ]
}

/// Those of this kind of processor, the oldest first; none where all kernels are portable code.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn instruction_sets() -> Vec<InstructionSet> {
    Vec::new()
}
