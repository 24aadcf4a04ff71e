//! A row of a model that several ranks share is the same bits however it is run, too. All ranks are on the processor.
#![allow(clippy::unwrap_used)]

#[path = "../bits/rows.rs"]
mod rows;
mod sharing;

use espalier_model::{DeviceKind, LoadOptions, Parallel, Workspace};

/// How models are loaded.
fn options() -> LoadOptions {
    shared_by("2")
}

/// By so many ranks.
fn shared_by(ranks: &str) -> LoadOptions {
    LoadOptions {
        device: DeviceKind::Candle,
        parallel: Parallel::tensor(ranks.parse().unwrap()),
        ..LoadOptions::default()
    }
}

/// Threads and instruction sets make no difference to it.
fn workspaces() -> Vec<Workspace> {
    vec![Workspace::new(1)]
}
