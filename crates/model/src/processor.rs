//! What this processor offers the kernels.

use crate::arithmetic::Arithmetic;
use crate::kernels::{InstructionSet, Kernels, PORTABLE_NAME, instruction_sets};

/// What this processor offers the kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// The instruction sets that kernels are written for, the oldest first; none where all kernels are portable code.
    pub sets: Vec<InstructionSet>,
    /// The kernels that are used.
    pub kernels: &'static str,
    /// What [`Compute::Auto`](crate::Compute::Auto) chooses for floats of 16 bits; none for f32, where there are no
    /// instructions for them, or none that are faster.
    pub of_16_bits: Option<Arithmetic>,
}

impl Processor {
    /// Asks the processor, and tries the instructions whose worth no manual tells.
    pub fn detect() -> Self {
        let kernels = Kernels::detect();
        Self { sets: instruction_sets(), kernels: kernels.name, of_16_bits: kernels.arithmetic_of_16_bits() }
    }

    /// Whether it has none of these sets, so that plain code computes everything.
    pub fn is_portable(&self) -> bool {
        self.kernels == PORTABLE_NAME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_there() {
        let Processor { sets, kernels, of_16_bits } = Processor::detect();
        let has = |name: &str| sets.iter().any(|set| set.name == name && set.present);
        let expected = match kernels {
            "amx" => has("AMX-BF16"),
            "avx512bf16" => has("AVX-512 BF16"),
            "avx512vnni" => has("AVX-512 VNNI"),
            "avx512" => has("AVX-512"),
            "avxvnni" => has("AVX-VNNI"),
            "avx2" => has("AVX2"),
            "neon-dots" => has("NEON dot products"),
            "neon" => has("NEON"),
            _ => sets.iter().all(|set| !set.present),
        };
        assert!(expected, "{kernels}: {sets:?}");
        assert_eq!(of_16_bits.is_some(), ["amx", "avx512bf16"].contains(&kernels));
    }
}
