//! What keeps a tree from being verified.

use crate::{LogitsError, UniformError};

/// Why nothing could be accepted.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum AcceptError {
    /// The target's logits allow no decision.
    #[error(transparent)]
    Logits(#[from] LogitsError),
    /// A uniform draw cannot be used.
    #[error(transparent)]
    Draw(#[from] UniformError),
}
