//! Whether the models, and what they keep of texts, fit into memory.

use espalier_service_kit::{Bytes, MemoryBudget};

use super::finding::Finding;

const CHECK: &str = "memory";

/// What one model takes.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    pub(crate) name: String,
    /// Bytes of weights, at most.
    pub(crate) weights: usize,
    /// Bytes of the keys and values of one sequence that fills the context.
    pub(crate) context: usize,
    /// Sequences that it serves at once.
    pub(crate) sequences: usize,
}

/// What there is, and what is asked of it.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// Bytes that the machine can spare, where the system tells.
    pub(crate) free: Option<usize>,
    /// What was asked for keys and values of each model.
    pub(crate) budget: Option<MemoryBudget>,
    pub(crate) needs: Vec<Need>,
}

/// None where there is no model that could be loaded.
pub(crate) fn judge(memory: &Memory) -> Option<Finding> {
    (!memory.needs.is_empty()).then(|| judge_needs(memory))
}

fn judge_needs(memory: &Memory) -> Finding {
    let weights: usize = memory.needs.iter().map(|need| need.weights).sum();
    let of_weights = format!("weights take {} at most", amount(weights));
    let Some(free) = memory.free else {
        return Finding::ok(CHECK, format!("{of_weights}; this system does not tell how much memory is free"));
    };
    if weights > free {
        return Finding::fault(
            CHECK,
            format!("{of_weights}, but only {} are free: {}", amount(free), largest(&memory.needs)),
            "end what else takes memory, serve fewer or smaller models, or weights of fewer bits (--compute int8, --quantize q4)",
        );
    }
    texts(memory, free - weights, &of_weights)
}

/// What is left for keys and values once weights are loaded.
fn texts(memory: &Memory, left: usize, of_weights: &str) -> Finding {
    let mut rest = left;
    let mut told = Vec::new();
    for need in &memory.needs {
        let wanted = need.context.saturating_mul(need.sequences);
        // What a percentage is of is known here.
        let given = MemoryBudget::of(memory.budget, Bytes(wanted), Some(Bytes(rest))).map_or(0, |Bytes(given)| given);
        if given < need.context {
            let says = format!(
                "{of_weights}; of the {} left `{}` would have {} for keys and values, but one text that fills its context \
                 takes {}",
                amount(left),
                need.name,
                amount(given),
                amount(need.context),
            );
            return Finding::warning(CHECK, says, "--kv-memory with more, or free some: longer texts are refused");
        }
        if given > rest {
            let says = format!(
                "{of_weights}; keys and values may take {} for `{}`, but {} are left",
                amount(given),
                need.name,
                amount(rest)
            );
            return Finding::warning(
                CHECK,
                says,
                "a smaller --kv-memory: the system may end the process once texts fill it",
            );
        }
        rest -= given;
        let texts = given.checked_div(need.context).unwrap_or(need.sequences).min(need.sequences);
        told.push(format!("{} for `{}`: {texts} full contexts of {}", amount(given), need.name, need.sequences));
    }
    Finding::ok(
        CHECK,
        format!("{of_weights}, {} are left; keys and values take up to {}", amount(left), told.join(", ")),
    )
}

/// Which of several takes the most.
fn largest(needs: &[Need]) -> String {
    let largest = needs.iter().max_by_key(|need| need.weights);
    largest.map_or_else(String::new, |need| format!("`{}` takes {}", need.name, amount(need.weights)))
}

/// Bytes for people.
pub(crate) fn amount(bytes: usize) -> String {
    const UNITS: [(&str, f64); 3] =
        [("GiB", (1_u64 << 30) as f64), ("MiB", (1 << 20) as f64), ("KiB", (1 << 10) as f64)];
    let bytes = bytes as f64;
    let unit = UNITS.iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes} bytes"), |(name, unit)| format!("{:.1} {name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    const MIB: usize = 1 << 20;

    fn with(free: Option<usize>, budget: Option<MemoryBudget>) -> Finding {
        let need = |name: &str, weights| Need {
            name: name.to_owned(),
            weights: weights * MIB,
            context: 10 * MIB,
            sequences: 4,
        };
        judge_needs(&Memory { free, budget, needs: vec![need("large", 1000), need("little", 100)] })
    }

    #[test]
    fn weights_that_do_not_fit_are_a_fault_that_names_the_largest() {
        let found = with(Some(500 * MIB), None);
        assert_eq!(found.level, Level::Fault);
        assert_eq!(found.says, "weights take 1.1 GiB at most, but only 500.0 MiB are free: `large` takes 1000.0 MiB");
    }

    #[test]
    fn full_contexts_are_counted_in_what_is_left() {
        let found = with(Some(1200 * MIB), None);
        assert_eq!(found.level, Level::Ok);
        let told = "100.0 MiB are left; keys and values take up to 40.0 MiB for `large`: 4 full contexts of 4, \
                    30.0 MiB for `little`: 3 full contexts of 4";
        assert!(found.says.ends_with(told), "{found:?}");
        assert_eq!(with(None, None).level, Level::Ok);
    }

    #[test]
    fn less_than_one_full_context_or_more_than_is_left_is_warned_of() {
        let small = with(Some(1200 * MIB), Some(Bytes(MIB).into()));
        assert!(small.level == Level::Warning && small.says.contains("`large` would have 1.0 MiB"), "{small:?}");
        let large = with(Some(1200 * MIB), Some(Bytes(60 * MIB).into()));
        assert!(
            large.level == Level::Warning && large.says.contains("60.0 MiB for `little`, but 40.0 MiB are left"),
            "{large:?}"
        );
        assert_eq!(with(Some(1500 * MIB), Some(MemoryBudget::Percent(40))).level, Level::Ok);
    }
}
