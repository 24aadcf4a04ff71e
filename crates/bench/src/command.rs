//! `espalier bench`: which measurement is wanted.

use clap::Subcommand;
use espalier_command::Verdict;
use espalier_local::SystemArgs;

use crate::calibration::{self, Calibration};
use crate::decode::{self, Decode};
use crate::error::BenchError;
use crate::kernels::{self, Kernels};
use crate::load::{self, Load};
use crate::perf::{self, Perf};
use crate::perplexity::{self, Perplexity};
use crate::policies::{self, Policies};
use crate::soak::{self, Soak};

/// What is to be measured.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// One forward pass over 1 to 64 tokens, next to what the machine allows at best; and over 2 to 16 sequences, next to a
    /// pass for each of them. Of models at hand, or of the sizes of well-known ones.
    Kernels(Kernels),
    /// What an arithmetic does to a model's predictions: perplexity, and how often the same token is the most probable.
    Perplexity(Perplexity),
    /// Plain and speculative decoding, prompt by prompt in one run, through gRPC.
    Decode(Decode),
    /// Every drafter under every policy next to plain decoding, prompt by prompt in one run, through gRPC.
    Policies(Policies),
    /// What a drafter's confidence and entropy say of acceptance: a reliability diagram.
    Calibration(Calibration),
    /// Many requests at once through gRPC: plain decoding, one drafter for all targets and, if wanted, one for each.
    ///
    /// All ways are put under the same load in turns, level by level in one run. Every text is held against the one that
    /// plain decoding alone gives; if any differs, or a request fails or takes too long, the exit code is 1. Requests that
    /// are refused for want of slots are counted apart.
    Load(Load),
    /// Very many sequences, a third of them cancelled and a third with deadlines at random moments: nothing may be left.
    ///
    /// Clients are more than there are slots, so some wait and some are refused. If afterwards a sequence has ended
    /// otherwise than it should, or a block, a slot, a task or more than 5 % of memory is held that was not before, the
    /// exit code is 1.
    Soak(Soak),
    /// Two builds of this program in turns: kernels, one request at a time, drafters and load.
    ///
    /// `just perf COMMIT` builds the other one. A ratio is the median of the turns' ratios of speeds; above 1 the new build is
    /// faster. Its interval holds the true one in 95 of 100 cases: if it holds 1, nothing is proved.
    Perf(Perf),
}

/// Runs one of them.
///
/// # Errors
/// What keeps it from measuring. Something that is not as it should be is no error but a verdict.
pub async fn run(system: &SystemArgs, bench: &Bench) -> Result<Verdict, BenchError> {
    match bench {
        Bench::Kernels(args) => kernels::run(system, args),
        Bench::Perplexity(args) => perplexity::run(system, args),
        Bench::Decode(args) => decode::run(system, args).await,
        Bench::Policies(args) => policies::run(system, args).await,
        Bench::Calibration(args) => calibration::run(system, args),
        Bench::Load(args) => load::run(system, args).await,
        Bench::Soak(args) => soak::run(system, args).await,
        Bench::Perf(args) => perf::run(system, args),
    }
}
