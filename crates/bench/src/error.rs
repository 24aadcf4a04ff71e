//! Why something was not measured.

use espalier_client::ClientError;
use espalier_command::CommandError;
use espalier_local::{LocalError, Twice};
use espalier_model::{Arithmetic, ConfigFault, ModelError};
use espalier_service_kit::Bytes;
use espalier_speculation::LogitsError;
use espalier_text::TextError;

use crate::perf::PerfError;
use crate::plot::PlotError;

/// Why a measurement did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The number of drafters is not that of the targets.
    #[error("--drafters-each names {drafters} drafters for {targets} targets; it takes one for each")]
    DraftersEach {
        /// Drafters that were named.
        drafters: usize,
        /// Targets that were named.
        targets: usize,
    },
    /// There is nobody to be calibrated.
    #[error("`none` guesses nothing that could be compared with the target's text")]
    NobodyGuesses,
    /// Two models do not speak of the same tokens.
    #[error("drafter `{drafter}` and target `{target}` have different tokenizers")]
    Tokenizers {
        /// The drafter.
        drafter: String,
        /// The target.
        target: String,
    },
    /// A model of random weights has no room.
    #[error("{shape} in {arithmetic} arithmetic needs {} bytes of memory, but {} are available", needed.0, available.0)]
    Memory {
        /// The shape.
        shape: &'static str,
        /// What it would be multiplied in.
        arithmetic: Arithmetic,
        /// What it takes.
        needed: Bytes,
        /// What the machine can spare.
        available: Bytes,
    },
    /// A shape is none of a model that can be run.
    #[error(transparent)]
    Shape(#[from] ConfigFault),
    /// Two things are called by one name.
    #[error(transparent)]
    Twice(#[from] Twice),
    /// The files or options that were given are wrong.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// There is no system to measure.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A tokenizer failed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Nothing can be chosen of a model's logits.
    #[error(transparent)]
    Logits(#[from] LogitsError),
    /// A plot cannot be drawn.
    #[error("the plot cannot be drawn")]
    Plot(#[from] PlotError),
    /// Two builds cannot be compared.
    #[error(transparent)]
    Perf(#[from] PerfError),
}

impl BenchError {
    /// Whether the caller can mend it by asking otherwise.
    pub fn is_of_the_request(&self) -> bool {
        match self {
            Self::DraftersEach { .. }
            | Self::NobodyGuesses
            | Self::Tokenizers { .. }
            | Self::Memory { .. }
            | Self::Twice(_)
            | Self::Command(_) => true,
            Self::Local(error) => error.is_of_the_request(),
            Self::Client(error) => error.is_of_the_request(),
            Self::Shape(_) | Self::Model(_) | Self::Text(_) | Self::Logits(_) | Self::Plot(_) | Self::Perf(_) => false,
        }
    }
}
