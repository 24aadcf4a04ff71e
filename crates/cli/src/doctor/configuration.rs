//! Whether files of a configuration hold what they should.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use espalier_local::{DrafterChoice, KEYS_BYTES_MAX, LocalError, Plan, count_keys};
use espalier_service_kit::chain;

use super::finding::{Finding, counted};

/// How many keys a file has, or why none can be read from it.
pub(crate) fn read_keys(path: &Path) -> Result<usize, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(KEYS_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    if text.len() as u64 > KEYS_BYTES_MAX {
        return Err(format!("{} is longer than {KEYS_BYTES_MAX} bytes", path.display()));
    }
    count_keys(&text).map_err(|error| format!("{}: {}", path.display(), chain(&error)))
}

pub(crate) fn judge_keys(keys: &Result<usize, String>) -> Finding {
    const CHECK: &str = "keys";
    match keys {
        Ok(0) => Finding::warning(
            CHECK,
            "the file has no keys, so every request is refused",
            "`espalier key NAME` makes one, and its entry",
        ),
        Ok(keys) => Finding::ok(CHECK, counted(*keys, "API key")),
        Err(why) => Finding::fault(
            CHECK,
            why,
            "mend the file: a gateway with it does not start, and one that runs keeps the keys it has",
        ),
    }
}

/// A pair whose profile is for another number of exits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) target: String,
    pub(crate) drafter: String,
    /// Exits that the profile is for.
    pub(crate) profile: usize,
    /// Exits of the drafter.
    pub(crate) exits: usize,
}

/// The pairs of a plan whose profiles do not suit.
pub(crate) fn misfits(plan: &Plan, drafters: &[DrafterChoice]) -> Vec<Misfit> {
    let targets = plan.targets();
    let pairs = targets.iter().flat_map(|target| drafters.iter().map(move |drafter| (target, drafter)));
    let misfit = |(target, drafter): (&String, &DrafterChoice)| {
        let (name, exits) = (drafter.name(), drafter.exits());
        let profile = plan.profiles.thresholds(target, &name)?.exits();
        (profile != exits).then(|| Misfit { target: target.clone(), drafter: name, profile, exits })
    };
    pairs.filter_map(misfit).collect()
}

/// Whether a system of this plan would be started, and its profiles used.
pub(crate) fn judge_plan(misfits: &Result<Vec<Misfit>, LocalError>) -> Finding {
    const CHECK: &str = "configuration";
    match misfits {
        Err(error) => Finding::fault(
            CHECK,
            chain(error),
            "mend what is named; `espalier serve` with these options ends with the same words",
        ),
        Ok(misfits) if misfits.is_empty() => {
            Finding::ok(CHECK, "`espalier serve` with these options has all that it asks for")
        }
        Ok(misfits) => {
            let told = misfits.iter().map(|Misfit { target, drafter, profile, exits }| {
                format!(
                    "that of `{drafter}` for `{target}` is for {}, and the drafter has {exits}",
                    counted(*profile, "exit")
                )
            });
            let says = format!("profiles that are not used: {}", told.collect::<Vec<_>>().join("; "));
            Finding::warning(
                CHECK,
                says,
                "`espalier tune thresholds` makes profiles; without one a drafter tunes itself while it serves",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn files_of_keys_are_counted_and_faulty_ones_told_with_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let look = |text: &str| {
            std::fs::write(&path, text).unwrap();
            judge_keys(&read_keys(&path))
        };
        let entry = format!(r#"{{"name": "a", "sha256": "{}"}}"#, "0".repeat(64));
        assert_eq!(look(&format!(r#"{{"keys": [{entry}]}}"#)).says, "1 API key");
        assert_eq!(look(r#"{"keys": []}"#).level, Level::Warning);
        let twice = look(&format!(r#"{{"keys": [{entry}, {entry}]}}"#));
        assert!(twice.level == Level::Fault && twice.says.contains("keys.json: "), "{twice:?}");
        let long = look(&" ".repeat(usize::try_from(KEYS_BYTES_MAX).unwrap() + 1));
        assert!(long.says.ends_with(&format!("is longer than {KEYS_BYTES_MAX} bytes")), "{long:?}");
        assert_eq!(judge_keys(&read_keys(Path::new("/nowhere"))).level, Level::Fault);
    }

    #[test]
    fn profiles_for_another_number_of_exits_are_warned_of() {
        let misfit = Misfit { target: "a".to_owned(), drafter: "d".to_owned(), profile: 3, exits: 2 };
        let found = judge_plan(&Ok(vec![misfit]));
        assert_eq!(found.level, Level::Warning);
        assert_eq!(found.says, "profiles that are not used: that of `d` for `a` is for 3 exits, and the drafter has 2");
        assert_eq!(judge_plan(&Ok(vec![])).level, Level::Ok);
        assert_eq!(judge_plan(&Err(LocalError::NoDrafter { given: "x:0".to_owned() })).level, Level::Fault);
    }
}
