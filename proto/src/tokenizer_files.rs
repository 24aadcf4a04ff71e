//! A model's tokenizer files, in pieces that fit into messages.

use crate::common::check_length;
use crate::error::WireError;
use crate::pb::{FetchTokenizerResponse, TokenizerFile};

/// The most bytes that a model's tokenizer files may have together.
pub const TOKENIZER_FILES_BYTES_MAX: usize = 320 << 20;

/// The most bytes of a file in one message.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// The files that make a model's tokenizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenizerFiles {
    /// `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`, if there is one.
    pub config: Option<Vec<u8>>,
    /// The chat template's own file, if there is one.
    pub chat_template: Option<Vec<u8>>,
}

impl TokenizerFiles {
    /// The size of all files together.
    pub fn bytes(&self) -> usize {
        let size = |file: &Option<Vec<u8>>| file.as_ref().map_or(0, Vec::len);
        self.tokenizer.len() + size(&self.config) + size(&self.chat_template)
    }

    /// The files in pieces of at most 1 MiB.
    pub fn into_chunks(self) -> impl Iterator<Item = FetchTokenizerResponse> + Send {
        let files = [
            (TokenizerFile::Tokenizer, self.tokenizer),
            (TokenizerFile::Config, self.config.unwrap_or_default()),
            (TokenizerFile::ChatTemplate, self.chat_template.unwrap_or_default()),
        ];
        files.into_iter().flat_map(|(file, data)| chunks(file, data))
    }
}

fn chunks(file: TokenizerFile, data: Vec<u8>) -> impl Iterator<Item = FetchTokenizerResponse> + Send {
    let starts = (0..data.len()).step_by(CHUNK_BYTES_MAX);
    starts.map(move |start| {
        let end = data.len().min(start + CHUNK_BYTES_MAX);
        FetchTokenizerResponse { file: file.into(), data: data[start..end].to_vec() }
    })
}

/// Puts the pieces together again, as they arrive.
#[derive(Debug, Default)]
pub struct TokenizerCollector {
    tokenizer: Vec<u8>,
    config: Vec<u8>,
    chat_template: Vec<u8>,
}

impl TokenizerCollector {
    /// Takes the next piece.
    ///
    /// # Errors
    /// A file that is not known, or more than [`TOKENIZER_FILES_BYTES_MAX`] in all.
    pub fn add(&mut self, piece: &FetchTokenizerResponse) -> Result<(), WireError> {
        let held = self.tokenizer.len() + self.config.len() + self.chat_template.len();
        check_length("tokenizer", held.saturating_add(piece.data.len()), TOKENIZER_FILES_BYTES_MAX)?;
        let unknown = WireError::Unknown { field: "file", value: piece.file };
        let file = match TokenizerFile::try_from(piece.file) {
            Ok(TokenizerFile::Tokenizer) => &mut self.tokenizer,
            Ok(TokenizerFile::Config) => &mut self.config,
            Ok(TokenizerFile::ChatTemplate) => &mut self.chat_template,
            Ok(TokenizerFile::Unspecified) | Err(_) => return Err(unknown),
        };
        file.extend_from_slice(&piece.data);
        Ok(())
    }

    /// The files, once the last piece has come.
    ///
    /// # Errors
    /// No `tokenizer.json`.
    pub fn finish(self) -> Result<TokenizerFiles, WireError> {
        if self.tokenizer.is_empty() {
            return Err(WireError::Missing { field: "tokenizer.json" });
        }
        let sent = |file: Vec<u8>| Some(file).filter(|file| !file.is_empty());
        Ok(TokenizerFiles {
            tokenizer: self.tokenizer,
            config: sent(self.config),
            chat_template: sent(self.chat_template),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn collect(pieces: impl IntoIterator<Item = FetchTokenizerResponse>) -> Result<TokenizerFiles, WireError> {
        let mut collector = TokenizerCollector::default();
        for piece in pieces {
            collector.add(&piece)?;
        }
        collector.finish()
    }

    #[test]
    fn files_survive_the_wire_in_small_pieces() {
        let files = TokenizerFiles {
            tokenizer: (0..3_000_000u32).map(|i| i as u8).collect(),
            config: Some(b"{}".to_vec()),
            chat_template: None,
        };
        let pieces: Vec<_> = files.clone().into_chunks().collect();
        assert_eq!(pieces.len(), 4);
        assert!(pieces.iter().all(|piece| piece.data.len() <= CHUNK_BYTES_MAX));
        assert_eq!(collect(pieces), Ok(files));
    }

    #[test]
    fn without_a_tokenizer_there_are_no_files() {
        assert_eq!(collect([]), Err(WireError::Missing { field: "tokenizer.json" }));
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        let piece = FetchTokenizerResponse { file: TokenizerFile::Tokenizer.into(), data: vec![0; CHUNK_BYTES_MAX] };
        let mut collector = TokenizerCollector::default();
        for _ in 0..TOKENIZER_FILES_BYTES_MAX / CHUNK_BYTES_MAX {
            collector.add(&piece).unwrap();
        }
        let more = FetchTokenizerResponse { file: TokenizerFile::Config.into(), data: vec![0] };
        assert!(matches!(collector.add(&more), Err(WireError::TooLarge { .. })));
    }

    #[test]
    fn an_unknown_file_is_refused() {
        for file in [0, 99] {
            let piece = FetchTokenizerResponse { file, data: vec![1] };
            assert!(matches!(collect([piece]), Err(WireError::Unknown { value, .. }) if value == file));
        }
    }
}
