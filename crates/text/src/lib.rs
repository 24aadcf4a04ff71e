//! Text on the way in and out: tokenizers in Hugging Face format, their chat templates, and the fingerprint by which
//! two services find that they speak of the same tokens.
//!
//! A [`Tokenizer`] is opened from a folder or a GGUF file, or rebuilt from [`Parts`] that a peer sent. [`Detokenizer`] turns generated
//! tokens into whole characters one token at a time.

mod bpe_kind;
mod chat;
mod clock;
mod detokenizer;
mod error;
mod fingerprint;
mod gguf_export;
mod gguf_fault;
mod gguf_parts;
mod guard;
mod parts;
mod source;
mod spelling;
mod tokenizer;

pub use chat::{ChatTemplate, Conversation, Message, TemplateSource};
pub use detokenizer::Detokenizer;
pub use error::{Result, TextError};
pub use gguf_export::GgufTokenizer;
pub use gguf_fault::GgufTokenizerFault;
pub use parts::Parts;
pub use tokenizer::Tokenizer;
