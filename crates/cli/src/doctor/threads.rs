//! Whether as many threads compute as the machine has processors.

use super::finding::Finding;

const CHECK: &str = "threads";

/// What was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threads {
    /// Threads that models are to compute with.
    pub(crate) asked: usize,
    /// Processors that this process may use.
    pub(crate) usable: usize,
    /// Processors of the machine, where the system tells.
    pub(crate) machine: Option<usize>,
}

/// The processors of the machine, from what Linux tells of them in `/proc/cpuinfo`.
pub(crate) fn processors_told(cpuinfo: &str) -> Option<usize> {
    let told = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    (told > 0).then_some(told)
}

pub(crate) fn judge(threads: Threads) -> Finding {
    let Threads { asked, usable, machine } = threads;
    if asked > usable {
        let says = format!("models would compute with {asked} threads on {usable} processors");
        return Finding::warning(
            CHECK,
            says,
            format!("--threads {usable}: threads that wait for a processor hold up all others"),
        );
    }
    let says = format!("models compute with {asked} of {usable} processors");
    match machine.filter(|&machine| machine > usable) {
        Some(machine) => {
            Finding::ok(CHECK, format!("{says}; the machine has {machine}, the others are not this process's"))
        }
        None => Finding::ok(CHECK, says),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn more_threads_than_processors_are_warned_of() {
        let found = judge(Threads { asked: 8, usable: 2, machine: Some(64) });
        assert_eq!(
            (found.level, found.says.as_str()),
            (Level::Warning, "models would compute with 8 threads on 2 processors")
        );
        assert!(found.advice.is_some_and(|advice| advice.starts_with("--threads 2")));
    }

    #[test]
    fn what_is_left_to_others_is_told() {
        let says = |machine| judge(Threads { asked: 2, usable: 2, machine }).says;
        assert_eq!(says(Some(2)), "models compute with 2 of 2 processors");
        assert!(says(Some(64)).ends_with("the machine has 64, the others are not this process's"));
        assert_eq!(says(processors_told("")), says(None));
        assert_eq!(processors_told("processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\n"), Some(2));
    }
}
