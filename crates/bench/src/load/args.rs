//! The options of `espalier bench load`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use espalier_command::{Answers, DrafterArg};

use crate::limits::at_once;

/// The most requests of a turn, and the most seconds that one may take.
const TURN_REQUESTS_MAX: u64 = 65_536;
const DEADLINE_MAX: u64 = 3600;

/// The options of `espalier bench load`.
#[derive(Debug, clap::Args)]
pub struct Load {
    /// The models that answer, in turns.
    #[arg(long, value_delimiter = ',', default_value = "medium", value_name = "T[,T…]")]
    pub(crate) targets: Vec<String>,
    /// For all targets.
    #[command(flatten)]
    pub(crate) drafter: DrafterArg,
    /// Compare with a drafter for each target, in the order of the targets, each a service of its own.
    #[arg(long, value_delimiter = ',', value_name = "D,D…")]
    pub(crate) drafters_each: Vec<String>,
    /// How trees are grown: policies with parameters if wanted, `;` between them, each compared with plain decoding; the
    /// gateway's usual one when absent.
    #[arg(long, value_delimiter = ';', value_name = "P;P…")]
    pub(crate) policies: Vec<String>,
    /// Prompts, one JSON object a line; those of several files are asked in turns.
    #[arg(long, num_args = 1.., required = true, value_name = "FILE.jsonl")]
    pub(crate) prompts: Vec<PathBuf>,
    /// Only the first so many prompts of each file.
    #[arg(long, default_value = "20", value_name = "N")]
    pub(crate) limit: NonZeroUsize,
    /// So many requests under way at all times, level after level: whoever has its answer asks again.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64], value_parser = at_once(), value_name = "N[,N…]")]
    pub(crate) concurrency: Vec<usize>,
    /// So many requests a second instead, at random times that the seed decides and whatever becomes of those before.
    #[arg(long, value_delimiter = ',', conflicts_with = "concurrency", value_parser = rate, value_name = "X[,X…]")]
    pub(crate) rate: Vec<f64>,
    /// Requests of each turn; when absent 32, or six for each at once or a second, whichever is more.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=TURN_REQUESTS_MAX), value_name = "N")]
    pub(crate) requests: Option<usize>,
    /// Turns of each way at each level.
    #[arg(long, default_value = "2", value_name = "N")]
    pub(crate) repeats: NonZeroUsize,
    /// Requests that each verifier and drafter has slots for; when absent as many as there are at once and one more for
    /// each further target, as drafters keep one free for each, or 64 with `--rate`.
    #[arg(long, value_parser = at_once(), value_name = "N")]
    pub(crate) slots: Option<usize>,
    /// Seconds that a request may take.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=DEADLINE_MAX), value_name = "S")]
    pub(crate) deadline: u64,
    #[command(flatten)]
    pub(crate) answers: Answers,
    /// Print JSON, one object for each way and level.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a plot of tokens a second over the load.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// Reads requests a second.
fn rate(text: &str) -> Result<f64, String> {
    const RATES: std::ops::RangeInclusive<f64> = 0.01..=10_000.0;
    let rate = text.parse().ok().filter(|rate| RATES.contains(rate));
    rate.ok_or_else(|| format!("requests a second are a number from {} to {}", RATES.start(), RATES.end()))
}
