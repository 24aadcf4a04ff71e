//! `espalier tune`: the settings that are fastest on this machine, found by measuring.

mod descent;
mod measure;
mod thresholds;

use clap::Subcommand;
use espalier_command::Verdict;
use espalier_local::SystemArgs;

use self::thresholds::Thresholds;
use crate::error::CliError;

/// What is to be tuned.
#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// The confidence at which each exit of a drafter answers for a target, by tokens per second.
    ///
    /// One threshold after the other is set to each value of a grid while the others stay as they are, and prompts are
    /// answered under all values in turns; the fastest is kept. The result is a profile for `--profiles`.
    Thresholds(Thresholds),
}

pub(crate) async fn run(system: &SystemArgs, tune: &Tune) -> Result<Verdict, CliError> {
    match tune {
        Tune::Thresholds(args) => thresholds::run(system, args).await,
    }
}
