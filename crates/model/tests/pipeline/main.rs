//! A model whose layers are split into stages computes what one device computes, to the bit. All stages are on the
//! processor.
#![allow(clippy::unwrap_used)]

#[path = "../bits/exits.rs"]
mod exits;
#[path = "../bits/prefixes.rs"]
mod prefixes;
mod refusals;
mod stages;

use espalier_model::{DeviceKind, LoadOptions, Parallel};

/// How models are loaded.
fn options() -> LoadOptions {
    let parallel = Parallel::pipeline("3".parse().unwrap());
    LoadOptions { device: DeviceKind::Candle, parallel, ..LoadOptions::default() }
}
