//! What can go wrong between text and tokens.

use std::path::PathBuf;

use espalier_gguf::FileError;

use crate::gguf_fault::GgufTokenizerFault;

/// A failure of loading or using a tokenizer or its chat template.
///
/// Every message is one whole sentence that names the offending value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The operating system refused to read a file.
    #[error("cannot read {}: {fault}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        fault: std::io::Error,
    },
    /// A GGUF file cannot be had, or it is none.
    #[error(transparent)]
    GgufFile(#[from] FileError),
    /// A GGUF file has no tokenizer that could be made.
    #[error("{}: {fault}", path.display())]
    GgufTokenizer {
        /// The file.
        path: PathBuf,
        /// Why not.
        fault: Box<GgufTokenizerFault>,
    },
    /// A folder has no tokenizer.
    #[error("{} has no {name}", folder.display())]
    MissingFile {
        /// The folder, which may itself not exist.
        folder: PathBuf,
        /// The file that was looked for.
        name: &'static str,
    },
    /// A file is larger than any sane one.
    #[error("{name} has {bytes} bytes, more than the {limit} that are read")]
    TooLarge {
        /// The file.
        name: &'static str,
        /// Its size.
        bytes: u64,
        /// The largest size that is read.
        limit: u64,
    },
    /// A file is not the JSON, or the UTF-8, that it should be.
    #[error("{name} is malformed: {fault}")]
    Malformed {
        /// The file.
        name: &'static str,
        /// The parser's message.
        fault: String,
    },
    /// The chat template is not a valid template.
    #[error("the chat template cannot be parsed: {fault}")]
    TemplateSyntax {
        /// The parser's message, with the line.
        fault: String,
    },
    /// The tokenizer comes without a chat template.
    #[error("the tokenizer has no chat template, so only plain text can be tokenized")]
    NoTemplate,
    /// The chat template refuses these messages.
    #[error("the chat template refuses the messages: {message}")]
    Refused {
        /// The template's own words.
        message: String,
    },
    /// There are tools, and the chat template has no place for them.
    #[error("the chat template tells the target nothing of tools")]
    NoTools,
    /// The chat template failed on these messages.
    #[error("the chat template failed: {fault}")]
    TemplateFailed {
        /// What failed, with the line.
        fault: String,
    },
    /// The chat template makes too much of these messages.
    #[error("the chat template made a prompt of more than {limit} bytes")]
    LongPrompt {
        /// The bytes that a prompt may have.
        limit: usize,
    },
    /// A text could not be tokenized.
    #[error("the text of {bytes} bytes cannot be tokenized: {fault}")]
    Encode {
        /// The length of the text.
        bytes: usize,
        /// The tokenizer's message.
        fault: String,
    },
    /// It cannot be told which bytes tokens stand for.
    #[error("the tokenizer's decoder does not make texts of bytes, as constraints need it")]
    Spelling,
    /// Tokens could not be turned into text.
    #[error("{tokens} tokens cannot be decoded: {fault}")]
    Decode {
        /// The number of tokens.
        tokens: usize,
        /// The tokenizer's message.
        fault: String,
    },
}

/// The result of loading or using a tokenizer.
pub type Result<T, E = TextError> = std::result::Result<T, E>;
