//! A model on a device of candle's passes the tests that one on the processor passes. The device is the processor here.
#![allow(clippy::unwrap_used)]

#[path = "../bits/exits.rs"]
mod exits;
mod golden;
mod in_f32;
mod noise;
#[path = "../bits/prefixes.rs"]
mod prefixes;
#[path = "../bits/rows.rs"]
mod rows;

use espalier_model::{DeviceKind, LoadOptions, Workspace};

/// How models are loaded.
fn options() -> LoadOptions {
    LoadOptions { device: DeviceKind::Candle, ..LoadOptions::default() }
}

/// Threads and instruction sets make no difference to it.
fn workspaces() -> Vec<Workspace> {
    vec![Workspace::new(1)]
}
