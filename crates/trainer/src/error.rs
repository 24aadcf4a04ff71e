//! What can stop a training.

use std::path::{Path, PathBuf};

use espalier_model::{DeviceKind, ModelError};
use espalier_speculation::SamplingError;
use espalier_text::TextError;

/// Why a training did not begin or did not get to its end.
///
/// Every message is one whole sentence that names the offending value and, where there is one, the limit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The operating system refused to read a file.
    #[error("cannot read {}: {fault}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        fault: std::io::Error,
    },
    /// The operating system refused to write a file, as it does when the disk is full. What the file held before is
    /// still there.
    #[error("cannot write {}: {fault}; what was written before is intact", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        fault: std::io::Error,
    },
    /// A line of training text is malformed.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// There is nothing to learn from, or nothing to validate with.
    #[error("{what} holds no text")]
    NoText {
        /// The files, or the part of them.
        what: String,
    },
    /// The text does not fit in memory as tokens.
    #[error("the text has more than the {limit} tokens that one training holds")]
    TooMuchText {
        /// The most tokens.
        limit: usize,
    },
    /// An option is outside its range.
    #[error("{name} is {found}, expected {min} to {max}")]
    Range {
        /// The option.
        name: &'static str,
        /// Its value.
        found: f64,
        /// The least it may be.
        min: f64,
        /// The most it may be.
        max: f64,
    },
    /// Exits that are not a rising list that ends at the last layer.
    #[error("exits {exits:?} must rise and end at the last layer, {layers}")]
    Exits {
        /// The exits asked for.
        exits: Vec<usize>,
        /// The layers of the drafter.
        layers: usize,
    },
    /// A model outside the Llama family.
    #[error("a model with {what} cannot be trained here: only the Llama family can")]
    Family {
        /// What sets it apart.
        what: &'static str,
    },
    /// A model outside the Llama family that is to teach on another device than the processor.
    #[error("a model with {what} teaches only on the processor: on device {device} only the Llama family does")]
    FamilyOnDevice {
        /// What sets it apart.
        what: &'static str,
        /// The device.
        device: DeviceKind,
    },
    /// Training sequences would be longer than a layer's sliding window.
    #[error("sequences of {length} tokens are longer than the sliding window of {window}")]
    Window {
        /// The length of a training sequence.
        length: usize,
        /// The shortest window of the model.
        window: usize,
    },
    /// The tokenizer knows more tokens than the model has rows for.
    #[error("the tokenizer has {tokens} tokens, but the model's vocabulary is {vocab}")]
    Vocabulary {
        /// Tokens of the tokenizer.
        tokens: usize,
        /// Rows of the model's embedding.
        vocab: usize,
    },
    /// A number that must be finite is not.
    #[error("the {what} of step {step} is not finite; {}", kept(checkpoint))]
    NotFinite {
        /// `loss` or `gradient`.
        what: &'static str,
        /// The step, from 1.
        step: usize,
        /// The step of the checkpoint that was kept.
        checkpoint: Option<usize>,
    },
    /// A trained tensor has no part in the loss.
    #[error("{name} receives no gradient")]
    NoGradient {
        /// The tensor.
        name: String,
    },
    /// The output folder holds something that would be overwritten.
    #[error("{} already holds {what}", folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
        /// What it holds.
        what: String,
    },
    /// There is no run to resume.
    #[error("{} holds no unfinished training", folder.display())]
    NothingToResume {
        /// The folder.
        folder: PathBuf,
    },
    /// A checkpoint cannot be read back.
    #[error("{} is not a checkpoint of this training: {what}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A JSON file cannot be understood.
    #[error("{}: {fault}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        fault: serde_json::Error,
    },
    /// Two that should speak of the same tokens do not.
    #[error("{who} has the tokenizer {found}, expected {expected}")]
    Tokenizer {
        /// A model's folder, or a text.
        who: String,
        /// Its tokenizer's fingerprint.
        found: String,
        /// The fingerprint that it should have.
        expected: String,
    },
    /// A teacher knows more tokens than its pupil, or fewer.
    #[error("the teacher {} has a vocabulary of {found}, expected {expected}", folder.display())]
    Teacher {
        /// The teacher's folder.
        folder: PathBuf,
        /// Rows of its embedding.
        found: usize,
        /// Rows of the pupil's.
        expected: usize,
    },
    /// A prompt that leaves a target no room to answer, or gives it nothing to read.
    #[error("prompt {number} has {tokens} tokens, expected 1 to {limit}")]
    Prompt {
        /// The prompt, from 1.
        number: usize,
        /// Its tokens.
        tokens: usize,
        /// Most tokens of a prompt.
        limit: usize,
    },
    /// Parameters by which no token can be drawn.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A file that would be overwritten.
    #[error("{} exists already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A checkpoint could not be loaded or run.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A text could not be tokenized.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A tensor operation failed.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    /// The curve of the loss cannot be drawn.
    #[error("the loss cannot be drawn: {0}")]
    Plot(#[from] plotters::drawing::DrawingAreaErrorKind<std::io::Error>),
}

/// The result of a part of a training.
pub type Result<T, E = TrainError> = std::result::Result<T, E>;

impl TrainError {
    /// Whether it lies in what was asked for, its files included, and not in the course of the training.
    pub fn is_of_the_request(&self) -> bool {
        !matches!(
            self,
            Self::Write { .. }
                | Self::NotFinite { .. }
                | Self::NoGradient { .. }
                | Self::Model(_)
                | Self::Tensor(_)
                | Self::Plot(_)
        )
    }

    pub(crate) fn read(path: &Path, fault: std::io::Error) -> Self {
        Self::Read { path: path.to_owned(), fault }
    }

    pub(crate) fn write(path: &Path, fault: std::io::Error) -> Self {
        Self::Write { path: path.to_owned(), fault }
    }
}

fn kept(checkpoint: &Option<usize>) -> String {
    match checkpoint {
        Some(step) => format!("the checkpoint of step {step} is kept"),
        None => "no checkpoint had been written yet".to_owned(),
    }
}

/// Refuses an option outside `min..=max`; a value that is no number is outside every range.
pub(crate) fn in_range(name: &'static str, found: f64, min: f64, max: f64) -> Result<()> {
    if (min..=max).contains(&found) { Ok(()) } else { Err(TrainError::Range { name, found, min, max }) }
}

/// Refuses a number of things that is outside `1..=max`.
pub(crate) fn count(name: &'static str, found: usize, max: usize) -> Result<()> {
    in_range(name, found as f64, 1.0, max as f64)
}
