//! What keeps a tokenizer from being made of a GGUF file's metadata.

use espalier_gguf::GgufError;

use crate::bpe_kind::BpeKind;

/// Why no tokenizer could be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GgufTokenizerFault {
    /// An entry is missing, or of another type.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// No byte-level BPE.
    #[error(
        "its tokenizer is of the kind {found:?}, and only byte-level BPE, \"gpt2\", is made of metadata; a \
         tokenizer.json beside the file will do"
    )]
    Model {
        /// `tokenizer.ggml.model`.
        found: String,
    },
    /// Words are found in a way that is not known.
    #[error(
        "its tokenizer finds words in the way {found:?}, and only {} are known; a tokenizer.json beside the file will do",
        BpeKind::KNOWN
    )]
    Words {
        /// `tokenizer.ggml.pre`, empty where it is not given.
        found: String,
    },
    /// Not every token has a type.
    #[error("`tokenizer.ggml.token_type` has {found} elements for {tokens} tokens")]
    Types {
        /// How many types there are.
        found: usize,
        /// How many tokens.
        tokens: usize,
    },
    /// A token has a type that there is not in byte-level BPE.
    #[error("token {token} is of type {found}, and byte-level BPE has the types 1 to 5")]
    Type {
        /// Its number.
        token: usize,
        /// Its type.
        found: i32,
    },
    /// Two tokens of one text.
    #[error("token {token} is {text:?}, as an earlier one is")]
    Twice {
        /// The number of the later one.
        token: usize,
        /// Their text.
        text: String,
    },
    /// A special token that is none.
    #[error("`{key}` is {found}, and there are {tokens} tokens")]
    NoToken {
        /// The entry.
        key: String,
        /// Its value.
        found: u32,
        /// How many tokens there are.
        tokens: usize,
    },
    /// A merge that is not two texts with a space between.
    #[error("merge {merge} is {text:?}, and one is two texts with a space between")]
    Merge {
        /// Its number, from 0.
        merge: usize,
        /// What it is.
        text: String,
    },
}
