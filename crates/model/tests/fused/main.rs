//! What GPUs run passes the tests that models on the processor pass. The processor runs it here, thread by thread.
#![cfg(feature = "emulated")]
#![allow(clippy::unwrap_used)]

#[path = "../bits/exits.rs"]
mod exits;
#[path = "../device/golden.rs"]
mod golden;
#[path = "../device/noise.rs"]
mod noise;
#[path = "../bits/prefixes.rs"]
mod prefixes;
#[path = "../bits/rows.rs"]
mod rows;
#[path = "../pipeline/stages.rs"]
mod stages;

use espalier_model::{Arithmetic, DeviceKind, LoadOptions, Workspace};

/// How models are loaded.
fn options() -> LoadOptions {
    LoadOptions { device: DeviceKind::Emulated, arithmetic: Arithmetic::Bf16, ..LoadOptions::default() }
}

/// Threads and instruction sets make no difference to it.
fn workspaces() -> Vec<Workspace> {
    vec![Workspace::new(1)]
}
