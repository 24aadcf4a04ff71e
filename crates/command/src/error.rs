//! Why a command cannot ask what it was told to.

use std::io;
use std::path::PathBuf;

use espalier_speculation::{PolicyError, PruningPolicy, SamplingError};

/// What is wrong with the files and options that a command was given. The caller can mend all of it.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of a file of prompts holds none.
    #[error("{}, line {line}: {what}", path.display())]
    Prompt {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A file holds no prompts.
    #[error("{} holds no prompts", path.display())]
    NoPrompts {
        /// The file.
        path: PathBuf,
    },
    /// A text is no policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A policy does not suit acceptance by rejection.
    #[error(transparent)]
    Pruning(#[from] PruningPolicy),
    /// A sampling parameter is out of range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
}
