//! All texts of a training as tokens, in memory.

use std::path::{Path, PathBuf};

use espalier_model::{Checkpoint, ModelError};
use espalier_speculation::Token;
use espalier_text::{Message, Tokenizer};
use sha2::{Digest, Sha256};

use super::jsonl::{self, Document};
use crate::error::{Result, TrainError};
use crate::random::{Draws, Purpose};
use crate::recipe::DataOptions;

/// Most tokens that one training holds in memory, 4 GB of them.
pub(crate) const TRAINING_TOKENS_MAX: usize = 1 << 30;

/// How a model's texts are written: its tokenizer and the token that ends a text.
#[derive(Debug, Clone)]
pub(crate) struct Voice {
    pub(crate) tokenizer: Tokenizer,
    /// Where a model has none, texts end without it.
    pub(crate) end: Option<Token>,
    /// Rows of the model's embedding.
    vocab: usize,
}

impl Voice {
    /// How the model in a checkpoint folder writes.
    ///
    /// # Errors
    /// A folder without a tokenizer, or one that knows more tokens than the model.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let config = Checkpoint::open(folder)?.config;
        let tokenizer = Tokenizer::open(folder)?;
        let (tokens, vocab) = (tokenizer.vocab_size(), config.vocab);
        if tokens > vocab {
            return Err(TrainError::Vocabulary { tokens, vocab });
        }
        Ok(Self { tokenizer, end: config.eos.first().copied(), vocab })
    }

    /// The tokens of one document: a chat as the chat template writes the question, the answer behind it; plain text
    /// with the tokens that begin a text. Both end as a text ends. Tokens are left as they are.
    fn tokens(&self, document: Document) -> Result<Vec<Token>> {
        let mut tokens = match document {
            Document::Tokens { tokens, tokenizer } => return self.check(tokens, tokenizer),
            Document::Chat { question, answer } => {
                let prompt = self.tokenizer.chat(&Message::user(question).into())?;
                // In one piece, as the answer's first characters may share a token with the prompt's last.
                self.tokenizer.encode(&(prompt + &answer), false)?
            }
            Document::Plain(text) => self.tokenizer.encode(&text, true)?,
        };
        tokens.extend(self.end);
        Ok(tokens)
    }

    /// Tokens that this model can read, of this tokenizer if they say of which.
    fn check(&self, tokens: Vec<Token>, tokenizer: Option<String>) -> Result<Vec<Token>> {
        let expected = self.tokenizer.fingerprint();
        if let Some(found) = tokenizer.filter(|found| found != expected) {
            let (who, expected) = ("the text".to_owned(), expected.to_owned());
            return Err(TrainError::Tokenizer { who, found, expected });
        }
        let vocab = self.vocab;
        match tokens.iter().find(|token| **token as usize >= vocab) {
            Some(&token) => Err(ModelError::Token { token, vocab }.into()),
            None => Ok(tokens),
        }
    }
}

/// The texts to learn from and those to validate with.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) training: Vec<Vec<Token>>,
    /// May be empty.
    pub(crate) validation: Vec<Vec<Token>>,
    /// SHA-256 over all tokens, in hexadecimal: a run may only be resumed on the same text.
    pub(crate) fingerprint: String,
}

impl Texts {
    /// Reads and tokenizes all files, and sets the validation texts apart.
    ///
    /// # Errors
    /// Files that cannot be read, malformed lines, no text at all, or more than fits.
    pub(crate) fn read(data: &DataOptions, voice: &Voice, seed: u64) -> Result<Self> {
        let mut training = read_all(&data.files, voice)?;
        let validation = match &data.validation_file {
            Some(file) => read_all(std::slice::from_ref(file), voice)?,
            None => split(&mut training, data.validation_share, seed),
        };
        if training.is_empty() {
            let what = "what validation leaves of the data".to_owned();
            return Err(TrainError::NoText { what });
        }
        let fingerprint = fingerprint(&[&training, &validation]);
        Ok(Self { training, validation, fingerprint })
    }
}

fn read_all(files: &[PathBuf], voice: &Voice) -> Result<Vec<Vec<Token>>> {
    let mut texts = Vec::new();
    let mut total = 0;
    for file in files {
        jsonl::read(file, |line, document| {
            let tokens = voice.tokens(document).map_err(|fault| at_line(file, line, &fault))?;
            total += tokens.len();
            if total > TRAINING_TOKENS_MAX {
                return Err(TrainError::TooMuchText { limit: TRAINING_TOKENS_MAX });
            }
            texts.push(tokens);
            Ok(())
        })?;
    }
    if texts.is_empty() {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(TrainError::NoText { what: names.join(", ") });
    }
    Ok(texts)
}

/// A text that cannot be tokenized is a malformed line too.
fn at_line(path: &Path, line: usize, fault: &TrainError) -> TrainError {
    TrainError::Line { path: path.to_owned(), line, what: fault.to_string() }
}

/// Takes a random share of the texts out, at least one where the share is above 0. Both parts keep the files' order.
fn split(texts: &mut Vec<Vec<Token>>, share: f64, seed: u64) -> Vec<Vec<Token>> {
    let wanted = (texts.len() as f64 * share).ceil() as usize;
    let mut order: Vec<usize> = (0..texts.len()).collect();
    Draws::new(seed, Purpose::Split, 0).shuffle(&mut order);
    let mut chosen = vec![false; texts.len()];
    order.into_iter().take(wanted).for_each(|text| chosen[text] = true);
    let (validation, training): (Vec<_>, Vec<_>) = texts.drain(..).zip(chosen).partition(|(_, chosen)| *chosen);
    *texts = training.into_iter().map(|(text, _)| text).collect();
    validation.into_iter().map(|(text, _)| text).collect()
}

fn fingerprint(parts: &[&[Vec<Token>]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        for text in *part {
            hasher.update((text.len() as u64).to_le_bytes());
            text.iter().for_each(|token| hasher.update(token.to_le_bytes()));
        }
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use super::*;
    use crate::testing::voice;

    #[test]
    fn a_chat_is_written_as_the_shipped_targets_were_trained() {
        let document = Document::Chat { question: "How many?".to_owned(), answer: "Two.".to_owned() };
        let voice = voice();
        let tokens = voice.tokens(document).unwrap();
        let expected = voice.tokenizer.encode("<s><|user|>\nHow many?\n<|assistant|>\nTwo.</s>", false).unwrap();
        assert_eq!(tokens, expected);
        assert_eq!((tokens[0], tokens[1], *tokens.last().unwrap()), (1, 3, 2));
    }

    #[test]
    fn plain_text_begins_and_ends_as_a_text_does() {
        let voice = voice();
        let tokens = voice.tokens(Document::Plain("Two and two.".to_owned())).unwrap();
        assert_eq!(tokens, voice.tokenizer.encode("<s>Two and two.</s>", false).unwrap());
    }

    #[test]
    fn tokens_are_left_as_they_are_if_they_are_ours() {
        let voice = voice();
        let read = |tokens: &[Token], tokenizer: Option<&str>| {
            let (tokens, tokenizer) = (tokens.to_vec(), tokenizer.map(str::to_owned));
            voice.tokens(Document::Tokens { tokens, tokenizer }).map_err(|fault| fault.to_string())
        };
        let ours = voice.tokenizer.fingerprint();
        assert_eq!(read(&[1, 7, 7], Some(ours)), Ok(vec![1, 7, 7]));
        assert_eq!(read(&[4095], None), Ok(vec![4095]));
        let refusal = format!("the text has the tokenizer other, expected {ours}");
        assert_eq!(read(&[1], Some("other")), Err(refusal));
        assert_eq!(read(&[1, 4096], None), Err("token 4096 is outside the vocabulary of 4096".to_owned()));
    }

    fn options(content: &str, share: f64) -> (tempfile::NamedTempFile, DataOptions) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let files = vec![file.path().to_owned()];
        (file, DataOptions { files, validation_share: share, ..DataOptions::default() })
    }

    #[test]
    fn the_split_is_a_function_of_the_seed_and_loses_nothing() {
        let lines: String = (0..40).map(|i| format!("{{\"text\": \"line {i}\"}}\n")).collect();
        let (_file, data) = options(&lines, 0.1);
        let read = |seed| Texts::read(&data, &voice(), seed).unwrap();
        let (texts, again, other) = (read(1), read(1), read(2));
        assert_eq!((texts.training.len(), texts.validation.len()), (36, 4));
        assert_eq!(texts.validation, again.validation);
        assert_ne!(texts.validation, other.validation);
        assert_eq!(texts.fingerprint, again.fingerprint);
        assert_ne!(texts.fingerprint, other.fingerprint);
        assert!(texts.validation.iter().all(|text| !texts.training.contains(text)));
    }

    #[test]
    fn nothing_to_learn_from_is_an_error() {
        let (file, data) = options("\n\n", 0.0);
        let fault = Texts::read(&data, &voice(), 0).unwrap_err().to_string();
        assert_eq!(fault, format!("{} holds no text", file.path().display()));
        let (_file, data) = options("{\"text\": \"one\"}", 0.5);
        let fault = Texts::read(&data, &voice(), 0).unwrap_err().to_string();
        assert_eq!(fault, "what validation leaves of the data holds no text");
    }
}
