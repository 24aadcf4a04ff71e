//! Why two builds were not compared.

use std::path::PathBuf;
use std::process::ExitStatus;

/// Why two builds could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// A program does not start.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A program found something wrong.
    #[error("`{} {args}` ended with {status}: {said}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// What it was asked.
        args: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said to people.
        said: String,
    },
    /// A program speaks otherwise.
    #[error("`{} {args}` did not print JSON", program.display())]
    Json {
        /// The program.
        program: PathBuf,
        /// What it was asked.
        args: String,
        /// Why.
        source: serde_json::Error,
    },
    /// There is nothing to compare.
    #[error("the two builds have no measurement in common")]
    Nothing,
}
