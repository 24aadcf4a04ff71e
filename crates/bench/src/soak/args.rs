//! The options of `espalier bench soak`.

use std::num::NonZeroUsize;

use espalier_command::{DrafterArg, PromptArgs};

use crate::limits::at_once;

/// The options of `espalier bench soak`.
#[derive(Debug, clap::Args)]
pub struct Soak {
    /// The model that answers.
    #[arg(long, default_value = "small", value_name = "T")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) drafter: DrafterArg,
    #[command(flatten)]
    pub(crate) asked: PromptArgs,
    /// Sequences in all; a tenth as many come first and do not count.
    #[arg(long, default_value = "10000", value_name = "N")]
    pub(crate) sequences: NonZeroUsize,
    /// Clients, each of which asks again as soon as it has its answer.
    #[arg(long, default_value = "40", value_parser = at_once(), value_name = "N")]
    pub(crate) concurrency: usize,
    /// Requests that are served at once, and as many that wait.
    #[arg(long, default_value = "16", value_parser = at_once(), value_name = "N")]
    pub(crate) slots: usize,
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 24, value_name = "N")]
    pub(crate) max_tokens: u32,
    /// The same seed gives the same moments.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
