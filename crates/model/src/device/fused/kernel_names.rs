//! What kernels are called, and what they call things.

use candle_core::{Error, Result};

use crate::config::Activation;

/// What a product becomes, and where that goes.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    Sums(u64),
    /// What activations come to.
    Units {
        gated: bool,
    },
}

/// The number that kernels know an activation by.
pub(super) fn activation(activation: Activation) -> i32 {
    match activation {
        Activation::Silu => 0,
        Activation::Gelu => 1,
        Activation::GeluTanh => 2,
        Activation::Relu => 3,
    }
}

/// The kernel for so many tiles of rows, and what they come to.
pub(super) fn product_kernel(tiles: usize, outcome: Outcome) -> Result<&'static str> {
    Ok(match (tiles, outcome) {
        (1, Outcome::Sums(_)) => "product_1_sums",
        (2, Outcome::Sums(_)) => "product_2_sums",
        (4, Outcome::Sums(_)) => "product_4_sums",
        (8, Outcome::Sums(_)) => "product_8_sums",
        (1, Outcome::Units { gated: true }) => "product_1_gated",
        (2, Outcome::Units { gated: true }) => "product_2_gated",
        (4, Outcome::Units { gated: true }) => "product_4_gated",
        (8, Outcome::Units { gated: true }) => "product_8_gated",
        (1, Outcome::Units { gated: false }) => "product_1_plain",
        (2, Outcome::Units { gated: false }) => "product_2_plain",
        (4, Outcome::Units { gated: false }) => "product_4_plain",
        (8, Outcome::Units { gated: false }) => "product_8_plain",
        (tiles, _) => return Err(Error::Msg(format!("there is no product of {tiles} tiles of rows"))),
    })
}

/// The kernel for heads of a size.
pub(super) fn attend_kernel(size: usize) -> Result<&'static str> {
    Ok(match size {
        16 => "attend_16",
        32 => "attend_32",
        64 => "attend_64",
        80 => "attend_80",
        96 => "attend_96",
        128 => "attend_128",
        256 => "attend_256",
        _ => return Err(Error::Msg(format!("there is no attention for heads of {size}"))),
    })
}
