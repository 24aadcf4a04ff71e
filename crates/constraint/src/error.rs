//! Why a constraint cannot be used.

use espalier_speculation::{ConstraintKind, Token};
use espalier_text::TextError;

/// A constraint cannot be used. The message is whole, and says where and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstraintError {
    /// The schema is no JSON.
    #[error("json_schema is no JSON: {fault}")]
    Json {
        /// What is wrong, with line and column.
        fault: String,
    },
    /// It is not understood, cannot be fulfilled, or is too large.
    #[error("{kind} cannot be used: {fault}")]
    Refused {
        /// Its language.
        kind: ConstraintKind,
        /// Where and why.
        fault: String,
    },
    /// It uses what cannot be taken back, as drafting has to.
    #[error("grammar uses `stop`, `lazy` or `max_tokens`, which are not supported")]
    NotReversible,
    /// A text that is to go on breaks it.
    #[error("token {token} at place {place} of what was generated is not allowed by the {kind}")]
    Broken {
        /// The constraint's language.
        kind: ConstraintKind,
        /// The first token that is not allowed.
        token: Token,
        /// How many tokens are before it.
        place: usize,
    },
    /// Texts of this tokenizer cannot be constrained.
    #[error("texts of this target cannot be constrained: {fault}")]
    Tokenizer {
        /// Why not.
        fault: String,
    },
}

impl From<&TextError> for ConstraintError {
    fn from(error: &TextError) -> Self {
        Self::Tokenizer { fault: error.to_string() }
    }
}
