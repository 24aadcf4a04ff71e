//! Ranks that share layers by kernels of our own: each runs its kernels on a thread of the processor, which stands in for its
//! GPU, and they exchange sums as GPUs do.
#![cfg(feature = "emulated")]
#![allow(clippy::unwrap_used)]

#[path = "../device/golden.rs"]
mod golden;
#[path = "../device/noise.rs"]
mod noise;
mod sharing;

use espalier_model::{Arithmetic, DeviceKind, LoadOptions, Parallel};

/// How models are loaded.
fn options() -> LoadOptions {
    shared_by("2", "1")
}

/// By so many ranks, in so many stages.
fn shared_by(ranks: &str, stages: &str) -> LoadOptions {
    LoadOptions {
        device: DeviceKind::Emulated,
        arithmetic: Arithmetic::Bf16,
        parallel: Parallel { tensor: ranks.parse().unwrap(), pipeline: stages.parse().unwrap() },
        ..LoadOptions::default()
    }
}
