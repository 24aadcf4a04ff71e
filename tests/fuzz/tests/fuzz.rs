//! Every target with its seeds, changed a little: the same inputs each time. `tests/fuzz/run` looks further.
//!
//! A case that fails is named by its target and its number, and is tried alone with both in `ESPALIER_FUZZ_CASE`:
//! `ESPALIER_FUZZ_CASE=gguf:1234 cargo test --workspace --test fuzz`. Without a number all cases of the target are
//! tried, each after it was printed, in case one ends the whole process.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use espalier_fuzz::{Attempt, CountingAllocator, Failure, TARGETS, Target, case, search};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// What is wrong with a target, if anything is, and how to try that again.
fn fault(target: &Target) -> Option<String> {
    let (number, failure) = search(target).err()?;
    let bytes = case(target, &(target.seeds)(), number);
    let name = target.name;
    Some(format!("{name}:{number} {failure}\n  {}: {}", target.about, bytes.escape_ascii()))
}

/// Tries a case, or all of a target, and says which before it does: what ends the process is the last.
fn one_by_one(chosen: &str) {
    let (name, number) = chosen.split_once(':').map_or((chosen, None), |(name, number)| (name, Some(number)));
    let target = Target::named(name).unwrap();
    let seeds = (target.seeds)();
    let numbers = number.map_or(0..seeds.len() + target.tries, |number| {
        let number = number.parse().unwrap();
        number..number + 1
    });
    for number in numbers {
        let bytes = case(target, &seeds, number);
        eprintln!("{name}:{number} {}", bytes.escape_ascii());
        assert!((Attempt { target, bytes: &bytes }).make().is_ok(), "{:?}", (target.run)(&bytes));
    }
}

/// Does something on so many threads. Without optimisation a library may take more stack than threads usually have.
fn on_threads(count: usize, what: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 0..count {
            thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, &what).unwrap();
        }
    });
}

const STACK_BYTES: usize = 16 << 20;

#[test]
fn whatever_the_bytes_they_are_read_or_refused() {
    if let Ok(chosen) = std::env::var("ESPALIER_FUZZ_CASE") {
        return on_threads(1, || one_by_one(&chosen));
    }
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    on_threads(thread::available_parallelism().unwrap().get(), || {
        while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = fault(target);
            faults.lock().unwrap().extend(found);
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn seeds_are_good_and_names_are_unique() {
    let names: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), TARGETS.len());
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(seeds == (target.seeds)(), "{} has other seeds each time", target.name);
        assert!((target.run)(&seeds[0]), "{} refuses its first seed", target.name);
        let accepted = seeds.iter().filter(|seed| (target.run)(seed)).count();
        println!("{} accepts {accepted} of {} seeds", target.name, seeds.len());
    }
}

/// A target whose property is broken by some changed seeds.
const PLANTED: Target = Target {
    name: "planted",
    about: "No text has a digit above 8.",
    run: |bytes| {
        assert!(!bytes.contains(&b'9'), "there is a 9");
        true
    },
    seeds: || vec![b"12 34 56 78".to_vec(), b"0".to_vec()],
    tries: 10_000,
    memory_max: 0,
};

#[test]
fn what_is_wrong_would_be_found_and_can_be_tried_again() {
    let (number, failure) = search(&PLANTED).unwrap_err();
    assert_eq!(failure, Failure::Panic("there is a 9".to_owned()));
    let bytes = case(&PLANTED, &(PLANTED.seeds)(), number);
    assert_eq!(Attempt { target: &PLANTED, bytes: &bytes }.make(), Err(failure));

    let hoards = Target { run: |bytes| vec![0u8; 1000 * bytes.len()].is_empty(), memory_max: 3000, ..PLANTED };
    assert!(
        matches!(search(&hoards), Err((0, Failure::Memory { held: 11_000, limit: 3704 }))),
        "{:?}",
        search(&hoards)
    );
    let modest = Target { run: |bytes| vec![0u8; 10 * bytes.len()].is_empty(), ..hoards };
    assert_eq!(search(&modest), Ok(()));
}
