//! The options of `espalier bench calibration`.

use std::path::PathBuf;

use espalier_command::{Answers, DrafterArg, PromptArgs};

/// The options of `espalier bench calibration`.
#[derive(Debug, clap::Args)]
pub struct Calibration {
    /// The model whose text is to be guessed.
    #[arg(long, default_value = "medium", value_name = "T")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) drafter: DrafterArg,
    #[command(flatten)]
    pub(crate) asked: PromptArgs,
    #[command(flatten)]
    pub(crate) answers: Answers,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a plot of both relations.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}
