//! `espalier tune`: the settings that are fastest on this machine, found by measuring.

mod descent;
mod measure;
mod thresholds;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Subcommand;

use crate::Verdict;
use crate::args::{Answers, SystemArgs};
use crate::error::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// The confidence at which each exit of a drafter answers for a target, by tokens per second.
    ///
    /// One threshold after the other is set to each value of a grid while the others stay as they are, and prompts are
    /// answered under all values in turns; the fastest is kept. The result is a profile for `--profiles`.
    Thresholds(Thresholds),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Thresholds {
    /// The model that answers.
    #[arg(long, value_name = "T")]
    pub(crate) target: String,
    /// Who drafts: a drafter with several exits, by name in the folder of models or by path.
    #[arg(long, value_name = "D")]
    pub(crate) drafter: String,
    /// Prompts, one JSON object a line.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) prompts: PathBuf,
    /// Only the first so many prompts.
    #[arg(long, default_value = "10", value_name = "N")]
    pub(crate) limit: NonZeroUsize,
    /// Answer each prompt so many times under each value.
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) repeats: NonZeroUsize,
    /// Go over all thresholds so many times at most; it ends when none changes any more.
    #[arg(long, default_value = "2", value_name = "N")]
    pub(crate) passes: NonZeroUsize,
    #[command(flatten)]
    pub(crate) answers: Answers,
    /// How trees are grown: a policy, with parameters if wanted.
    #[arg(long, value_name = "P[,key=value…]")]
    pub(crate) policy: Option<String>,
    /// Write the profile; what the file says of other targets and drafters is kept.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON, one object for each measurement and one for the result.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(system: &SystemArgs, tune: &Tune) -> Result<Verdict, CliError> {
    match tune {
        Tune::Thresholds(args) => thresholds::run(system, args).await,
    }
}
