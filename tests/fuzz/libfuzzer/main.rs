//! The program that libFuzzer drives: `tests/fuzz/run` builds and starts it. It tries the target that the environment
//! names.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use espalier_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

/// Names the target.
const TARGET: &str = "ESPALIER_FUZZ_TARGET";

/// Names a folder for the target's seeds.
const SEEDS: &str = "ESPALIER_FUZZ_SEEDS";

static CHOSEN: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var(TARGET).unwrap_or_default();
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    Target::named(&name).unwrap_or_else(|| panic!("{TARGET} is `{name}`, and the targets are {}", known()))
});

/// Stands for all targets: their names are printed.
const LIST: &str = "list";

/// Prints names if that is asked for, or else writes the seeds where libFuzzer is going to look for them.
fn prepare() {
    if std::env::var(TARGET).is_ok_and(|name| name == LIST) {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        std::process::exit(0);
    }
    // A panic that is caught is no finding: the hook of the library would end the process at the first.
    drop(std::panic::take_hook());
    let Some(folder) = std::env::var_os(SEEDS) else { return };
    for (number, seed) in (CHOSEN.seeds)().iter().enumerate() {
        let file = Path::new(&folder).join(format!("seed-{number}"));
        std::fs::write(&file, seed).unwrap_or_else(|error| panic!("{} cannot be written: {error}", file.display()));
    }
}

fuzz_target!(init: prepare(), |bytes: &[u8]| { (CHOSEN.run)(bytes); });
