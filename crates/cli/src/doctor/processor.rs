//! Whether the processor has what the kernels make use of.

use espalier_model::Processor;

use super::finding::Finding;

const CHECK: &str = "processor";

pub(crate) fn judge(processor: &Processor) -> Finding {
    let named = |present: bool| {
        let sets = processor.sets.iter().filter(|set| set.present == present);
        sets.map(|set| set.name).collect::<Vec<_>>().join(", ")
    };
    let (has, lacks) = (named(true), named(false));
    let of_16_bits = processor.of_16_bits.map_or("f32", |arithmetic| arithmetic.name());
    let auto = format!("`--compute auto` multiplies weights of 16 bits in {of_16_bits}");
    if processor.sets.is_empty() {
        return Finding::warning(
            CHECK,
            format!("no kernels are written for this kind of processor: portable code is used; {auto}"),
            "expect a few tokens a second; run it on x86-64 with AVX2 or AVX-512, on 64-bit ARM, or on a GPU (--device)",
        );
    }
    if processor.is_portable() {
        return Finding::warning(
            CHECK,
            format!("it lacks {lacks}: portable code is used; {auto}"),
            "expect a few tokens a second; where this is a virtual machine, have it show the processor as it is (`host`)",
        );
    }
    let lacks = if lacks.is_empty() { String::new() } else { format!(", and lacks {lacks}") };
    Finding::ok(CHECK, format!("it has {has}{lacks}; kernels `{}`; {auto}", processor.kernels))
}

#[cfg(test)]
mod tests {
    use espalier_model::{Arithmetic, InstructionSet};

    use super::super::finding::Level;
    use super::*;

    fn with(sets: &[(&'static str, bool)], of_16_bits: Option<Arithmetic>) -> Finding {
        let sets: Vec<_> = sets.iter().map(|&(name, present)| InstructionSet { name, present }).collect();
        let kernels = if sets.iter().any(|set| set.present) { "avx2" } else { "portable" };
        judge(&Processor { sets, kernels, of_16_bits })
    }

    #[test]
    fn what_the_processor_has_and_what_auto_makes_of_it_is_told() {
        let found = with(&[("AVX2", true), ("AVX-512", false)], None);
        assert_eq!(found.level, Level::Ok);
        let expected =
            "it has AVX2, and lacks AVX-512; kernels `avx2`; `--compute auto` multiplies weights of 16 bits in f32";
        assert_eq!(found.says, expected);
        assert!(with(&[("AVX2", true)], Some(Arithmetic::Bf16)).says.ends_with("16 bits in bf16"));
    }

    #[test]
    fn portable_code_is_warned_of() {
        for sets in [&[][..], &[("AVX2", false), ("AVX-512", false)]] {
            let found = with(sets, None);
            assert!(found.level == Level::Warning && found.says.contains("portable code is used"), "{found:?}");
        }
    }
}
