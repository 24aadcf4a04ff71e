//! The options of `espalier bench policies`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use espalier_command::Answers;
use espalier_local::DEFAULT_DRAFTER;

use super::arms::ALL;
use super::labelled::Labelled;

/// The options of `espalier bench policies`.
#[derive(Debug, clap::Args)]
pub struct Policies {
    /// The model that answers.
    #[arg(long, default_value = "medium", value_name = "T")]
    pub(crate) target: String,
    /// Who drafts: drafters by name or by path, `NAME:LAYERS` for first layers, `ngram` for proposals from the text
    /// itself. One that was made for another target is skipped.
    #[arg(long, value_delimiter = ',', default_value = DEFAULT_DRAFTER, value_name = "D[,D…]")]
    pub(crate) drafter: Vec<String>,
    /// Prompts, one JSON object a line; each file is a group of columns under its label, or its name without one.
    #[arg(long, num_args = 1.., required = true, value_name = "[LABEL=]FILE.jsonl")]
    pub(crate) prompts: Vec<Labelled>,
    /// Only the first so many prompts of each file.
    #[arg(long, default_value = "20", value_name = "N")]
    pub(crate) limit: NonZeroUsize,
    /// Policies with parameters if wanted, `;` between them, or `all`.
    #[arg(long, num_args = 1.., value_delimiter = ';', default_value = ALL, value_name = "P;P…")]
    pub(crate) policies: Vec<String>,
    #[command(flatten)]
    pub(crate) answers: Answers,
    /// Print JSON, one object for each drafter, policy and label.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a plot of speed-ups and accepted lengths.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}
