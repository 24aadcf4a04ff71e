//! Logits are the same bits however a token is run, on one thread or several, by the instructions of any processor.
#![allow(clippy::unwrap_used)]

mod exits;
mod prefixes;
mod processors;
mod revisions;
mod rows;

use espalier_model::{LoadOptions, Workspace};

/// How models are loaded.
fn options() -> LoadOptions {
    LoadOptions::default()
}

/// Each instruction set, and the fastest with several threads.
fn workspaces() -> Vec<Workspace> {
    let sets = Workspace::instruction_sets();
    let alone = sets.iter().map(|set| (1, set));
    alone
        .chain([(2, &sets[0]), (3, &sets[0])])
        .map(|(threads, set)| Workspace::with_instruction_set(threads, set).unwrap())
        .collect()
}
