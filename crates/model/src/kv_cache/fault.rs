//! What a pool of blocks refuses.

use thiserror::Error;

/// Why a pool cannot promise blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PoolFault {
    /// Not at present.
    #[error("{needed} blocks of KV memory are needed, but {free} of {total} are free")]
    Full {
        /// Blocks needed besides those that are shared with others.
        needed: usize,
        /// Blocks that nobody holds or was promised.
        free: usize,
        /// All blocks.
        total: usize,
    },
    /// Not even if nobody else held any.
    #[error("{needed} blocks of KV memory are needed, but there are only {total}")]
    TooSmall {
        /// Blocks needed.
        needed: usize,
        /// All blocks.
        total: usize,
    },
    /// The device that keeps them.
    #[error("the device that keeps KV memory could not copy it")]
    Device,
}
