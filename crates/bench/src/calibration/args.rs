//! The options of `espalier bench calibration`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use espalier_command::Answers;
use espalier_local::DEFAULT_DRAFTER;

/// The options of `espalier bench calibration`.
#[derive(Debug, clap::Args)]
pub struct Calibration {
    /// The model whose text is to be guessed.
    #[arg(long, default_value = "medium", value_name = "T")]
    pub(crate) target: String,
    /// Who guesses: a checkpoint, `NAME:LAYERS` for its first layers, or `ngram`.
    #[arg(long, default_value = DEFAULT_DRAFTER, value_name = "D")]
    pub(crate) drafter: String,
    /// Prompts, one JSON object a line.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) prompts: PathBuf,
    /// Only the first so many prompts.
    #[arg(long, default_value = "20", value_name = "N")]
    pub(crate) limit: NonZeroUsize,
    #[command(flatten)]
    pub(crate) answers: Answers,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a plot of both relations.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}
