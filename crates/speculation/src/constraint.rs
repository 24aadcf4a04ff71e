//! What the text of a request is held to, and how those who choose its tokens are told what may follow.

use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::Token;

/// Bytes of the longest constraint.
pub const CONSTRAINT_BYTES_MAX: usize = 64 << 10;

/// The languages that constraints are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConstraintKind {
    /// A JSON schema: the text is a JSON value that it allows.
    JsonSchema,
    /// A regular expression: it matches the whole text.
    Regex,
    /// A context-free grammar in a variant of Lark's syntax.
    Grammar,
}

impl ConstraintKind {
    /// Its name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::Regex => "regex",
            Self::Grammar => "grammar",
        }
    }
}

impl fmt::Display for ConstraintKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A constraint of a length that nobody can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintLength {
    /// It says nothing.
    #[error("{kind} is empty")]
    Empty {
        /// Its language.
        kind: ConstraintKind,
    },
    /// It is too long.
    #[error("{kind} has {bytes} bytes, beyond the limit of {CONSTRAINT_BYTES_MAX}")]
    TooLong {
        /// Its language.
        kind: ConstraintKind,
        /// Its length.
        bytes: usize,
    },
}

/// What a text must be, as its client wrote it. Of a valid length; whether it means anything is found when it is
/// compiled. Clones share the words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Constraint {
    kind: ConstraintKind,
    words: Arc<str>,
}

impl Constraint {
    /// A constraint in these words.
    ///
    /// # Errors
    /// No words, or more than [`CONSTRAINT_BYTES_MAX`] bytes of them.
    pub fn new(kind: ConstraintKind, words: &str) -> Result<Self, ConstraintLength> {
        match words.len() {
            0 => Err(ConstraintLength::Empty { kind }),
            bytes if bytes > CONSTRAINT_BYTES_MAX => Err(ConstraintLength::TooLong { kind, bytes }),
            _ => Ok(Self { kind, words: words.into() }),
        }
    }

    /// Its language.
    pub fn kind(&self) -> ConstraintKind {
        self.kind
    }

    /// Its words.
    pub fn words(&self) -> &str {
        &self.words
    }
}

/// Why it cannot be said what may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RestrictionFault {
    /// To find out would take more work or memory than one text may.
    #[error("the constraint is too complex to be followed any further")]
    TooComplex,
    /// Nothing may follow, and the text may not end: tokens that would end it are all that the constraint allows.
    #[error("the constraint allows nothing but tokens that would end the text, where it may not end")]
    Nothing,
    /// A text that the constraint does not allow.
    #[error("the text holds token {token}, which its constraint does not allow there")]
    Broken {
        /// The first token at fault.
        token: Token,
    },
}

/// What may follow a text, token by token: a constraint at work on one text.
///
/// A `path` are tokens behind the committed text, as for [`crate::Sampler`]. What is said depends on the committed text
/// and the path alone. Behind a token that ends the text everything is allowed: it will be cut off.
pub trait Restriction: Debug + Send {
    /// Makes the logits of all tokens minus infinity that may not follow after `path`.
    ///
    /// # Errors
    /// [`RestrictionFault`].
    fn restrict(&mut self, path: &[Token], logits: &mut [f32]) -> Result<(), RestrictionFault>;

    /// Whether `token` may follow after `path`.
    fn allows(&mut self, path: &[Token], token: Token) -> bool;

    /// Tokens that must follow after `path`, at most `most` of them; none where there is a choice.
    fn forced(&mut self, path: &[Token], most: usize) -> Vec<Token>;

    /// Adds generated tokens to the text.
    fn push(&mut self, generated: &[Token]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_has_words_and_not_too_many() {
        let refusal = |words: &str| Constraint::new(ConstraintKind::Regex, words).map_err(|error| error.to_string());
        assert_eq!(refusal(""), Err("regex is empty".to_owned()));
        let long = "a".repeat(CONSTRAINT_BYTES_MAX + 1);
        assert_eq!(refusal(&long), Err("regex has 65537 bytes, beyond the limit of 65536".to_owned()));
        assert!(refusal(&long[1..]).is_ok());
    }
}
