//! The rooms of each crate: its modules use each other without circles, and none of them is large.
//!
//! Modules under `#[cfg(test)]` do not count. What the sources say is read by `syn`; nothing is compiled for it.
#![allow(clippy::unwrap_used)]

mod circles;
mod names;
mod reading;
mod sizes;
mod source;
mod uses;

use std::collections::BTreeMap;
use std::path::Path;

use circles::{Edges, circles, message};
use sizes::{Function, functions, lines_before_tests, tuple_parameters};
use source::Crate;

/// Crates whose files still use each other in circles, with how many files do. A number may only get smaller.
const IN_CIRCLES: [(&str, usize); 0] = [];

/// Files that are still longer than [`FILE_LINES_MAX`]. None may be added.
const LONG_FILES: [&str; 0] = [];

/// Functions that still take tuples apart in their parameters, by crate. A number may only get smaller.
const TUPLE_PARAMETERS: [(&str, usize); 0] = [];

/// Most lines of a file before its tests.
const FILE_LINES_MAX: usize = 400;

/// Most lines of a function that is not among the longest twentieth.
const FUNCTION_LINES_P95_MAX: usize = 20;

/// The crates of the workspace, one for each library and program.
fn crates() -> Vec<Crate> {
    source::workspace(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")))
}

/// What a table allows a crate.
fn allowed(table: &[(&str, usize)], name: &str) -> usize {
    table.iter().find(|(of, _)| *of == name).map_or(0, |&(_, allowed)| allowed)
}

/// The circles of a crate as a message, if there are more files in them than is allowed.
fn fault_of(of: &Crate) -> Option<String> {
    let edges = Edges::of(of);
    let circles = circles(&edges);
    let files: usize = circles.iter().map(Vec::len).sum();
    let allowed = allowed(&IN_CIRCLES, &of.name);
    (files > allowed).then(|| format!("{}: {files} files in circles\n{}", of.name, message(&edges, &circles)))
}

#[test]
fn files_of_a_crate_use_each_other_without_circles() {
    let faults: Vec<String> = crates().iter().filter_map(fault_of).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_are_short() {
    let crates = crates();
    let files =
        crates.iter().flat_map(|of| of.files.iter().map(move |file| (of.path_of(file), lines_before_tests(file))));
    let long = files.filter(|(path, lines)| *lines > FILE_LINES_MAX && !LONG_FILES.contains(&path.as_str()));
    let faults: Vec<String> = long.map(|(path, lines)| format!("{path}: {lines} lines before its tests")).collect();
    assert!(faults.is_empty(), "at most {FILE_LINES_MAX} are meant to be\n{}", faults.join("\n"));
}

#[test]
fn functions_are_short() {
    let mut all: Vec<Function> = crates().iter().flat_map(functions).collect();
    all.sort_by_key(|function| function.lines);
    let p95 = all[all.len() * 95 / 100].lines;
    let longest: Vec<String> = all.iter().rev().take(20).map(ToString::to_string).collect();
    assert!(p95 <= FUNCTION_LINES_P95_MAX, "p95 is {p95} lines; the longest are\n{}", longest.join("\n"));
}

#[test]
fn parameters_that_belong_together_are_structs() {
    let crates = crates();
    let mut by_crate: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for of in &crates {
        by_crate.entry(&of.name).or_default().extend(tuple_parameters(of));
    }
    by_crate.retain(|name, found| found.len() > allowed(&TUPLE_PARAMETERS, name));
    let faults: Vec<String> = by_crate.into_values().flatten().collect();
    assert!(faults.is_empty(), "parameters that are tuples taken apart:\n{}", faults.join("\n"));
}

#[test]
fn one_round_is_told_by_few_files() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let page = std::fs::read_to_string(root.join("docs/ARCHITECTURE.md")).unwrap();
    assert_eq!(reading::faults(&page, root), [""; 0]);
    let twice = page.replace("engine/batch.rs)", "engine/thread.rs)");
    assert_eq!(reading::faults(&twice, root), ["a file is listed twice"]);
    let gone = page.replace("](../gateway/src/rounds.rs)", "](../gateway/src/turns.rs)");
    assert_eq!(reading::faults(&gone, root), ["there is no ../gateway/src/turns.rs"]);
    assert_eq!(reading::faults("", root), ["0 files are listed"]);
}

#[test]
fn what_is_forbidden_would_be_found() {
    let toy = source::toy(&[
        ("lib", "mod a; mod b; mod c; pub use a::A; pub use b::*; fn root() { c::free() }"),
        ("a", "use crate::B; pub struct A(B); #[cfg(test)] mod tests { use crate::c::free; }"),
        ("b", "pub struct B; impl B { fn a(&self) -> super::a::A { unimplemented!() } }"),
        ("c", "pub fn free() { println!(\"{}\", crate::A::NAME) } fn two((a, b): (u8, u8)) -> u8 { a + b }"),
    ]);
    let edges = Edges::of(&toy);
    assert_eq!(edges.items("a", "b"), ["B"]);
    assert_eq!(edges.items("b", "a"), ["A"]);
    assert_eq!(edges.items("c", "a"), ["A"], "a re-exported name counts for the file that defines it");
    assert_eq!(edges.items("c", "lib"), [""; 0]);
    assert_eq!(edges.items("a", "c"), [""; 0], "tests do not count");
    assert_eq!(circles(&edges), [["a", "b"]]);
    assert_eq!(message(&edges, &circles(&edges)), "  a -> b: B\n  b -> a: A");
    assert_eq!(tuple_parameters(&toy), ["toy/c: two"]);
    let lines: Vec<usize> = functions(&toy).map(|function| function.lines).collect();
    assert_eq!(lines, [1; 4]);
}
