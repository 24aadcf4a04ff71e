//! The command line.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgGroup, Parser, Subcommand};
use espalier_service_kit::{Bytes, TelemetryArgs};
use espalier_speculation::{Acceptance, LOGPROBS_MAX, Token};

use crate::bench::policies::{ALL, Labelled};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Serves large language models faster by distributed speculative decoding: a small drafter proposes a tree of tokens,
/// the target checks it in one pass, and the text is exactly the target's own.
///
/// Without a command it runs a demonstration: two targets served by one drafter over gRPC, compared with plain
/// decoding.
#[derive(Debug, Parser)]
#[command(name = "espalier", version, styles = STYLES, mut_arg("log", |log| log.default_value("warn")))]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    /// Logs and traces.
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What a system that is started here is made of.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SystemArgs {
    /// The folder that holds checkpoints by name; found beside the program when absent.
    #[arg(long, global = true, env = "ESPALIER_MODELS", value_name = "DIR")]
    pub(crate) models: Option<PathBuf>,
    /// Threads that the models compute with, in turns; all processors when absent.
    #[arg(long, global = true, env = "ESPALIER_THREADS", value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Predictors of acceptance for the policy `cali-ts`, by name in the folder of models or by path: each goes to the
    /// drafter that it was trained with.
    #[arg(
        long = "predictor",
        global = true,
        env = "ESPALIER_PREDICTORS",
        value_delimiter = ',',
        value_name = "P[,P…]"
    )]
    pub(crate) predictors: Vec<String>,
    /// Thresholds of exits by target and drafter, as `espalier tune thresholds` writes them. A drafter with several exits
    /// that is not named there tunes its own for each target while it serves.
    #[arg(long, global = true, env = "ESPALIER_PROFILES", value_name = "FILE.json")]
    pub(crate) profiles: Option<PathBuf>,
    /// Memory for the keys and values of each model that is served, like `512MiB` or `8GiB`; what suits model and machine
    /// when absent.
    #[arg(long, global = true, env = "ESPALIER_KV_MEMORY", value_name = "BYTES")]
    pub(crate) kv_memory: Option<Bytes>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep a whole system up: a drafter, a verifier for each target, and the gateway.
    Serve(Serve),
    /// Continue prompts, through a running gateway or a system started for the purpose.
    Generate(Generate),
    /// Show what a running system does: targets, drafters, sequences, queues, tau, tokens per second and memory.
    ///
    /// `q`, Esc or Ctrl-C leave. Where there is no terminal, `--once` prints a table and `--json` an object a reading.
    Top(Top),
    /// Check every checkpoint folder in a folder against its golden logits and its golden text.
    Golden(Folder),
    /// Check the algorithms against vectors of an independent implementation.
    Vectors(Folder),
    /// Find the settings that are fastest, by measuring.
    #[command(subcommand)]
    Tune(crate::tune::Tune),
    /// Train a model or a drafter.
    #[command(subcommand)]
    Train(crate::train::Train),
    /// Measure.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Folder {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Targets to host, by name in the folder of models or by path.
    #[arg(long, value_delimiter = ',', default_values = ["small", "medium"], value_name = "T[,T…]")]
    pub(crate) targets: Vec<String>,
    /// Who drafts: drafters by name in the folder of models or by path, or `NAME:LAYERS` for first layers, or `none`.
    #[arg(long, value_delimiter = ',', default_value = crate::models::DEFAULT_DRAFTER, value_name = "D[,D…]")]
    pub(crate) drafter: Vec<String>,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub(crate) host: IpAddr,
    /// The gateway's port; 0 takes a free one.
    #[arg(long, default_value_t = 50051)]
    pub(crate) port: u16,
    /// The first verifier's port, the others following; 0 takes free ones.
    #[arg(long, default_value_t = 50071)]
    pub(crate) verifier_port: u16,
    /// The first drafter's port, the others following; 0 takes free ones.
    #[arg(long, default_value_t = 50061)]
    pub(crate) drafter_port: u16,
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub(crate) struct Generate {
    /// The model that answers, by name or, without `--gateway`, by path.
    #[arg(long, value_name = "T")]
    pub(crate) target: String,
    /// The prompt.
    #[arg(long, group = "what", value_name = "S")]
    pub(crate) prompt: Option<String>,
    /// Prompts, one JSON object a line with `prompt`, `question` or `turns` (the first turn is used).
    #[arg(long, group = "what", value_name = "FILE.jsonl")]
    pub(crate) prompts: Option<PathBuf>,
    /// Only the first so many prompts.
    #[arg(long, requires = "prompts", value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) decoding: Decoding,
    /// The prompt is the text to continue: no chat template.
    #[arg(long)]
    pub(crate) raw: bool,
    /// A running gateway; without it the system is started in this process.
    #[arg(long, env = "ESPALIER_GATEWAY", value_name = "URL")]
    pub(crate) gateway: Option<String>,
    /// End the answer before this text; may be given several times.
    #[arg(long, allow_hyphen_values = true, value_name = "S")]
    pub(crate) stop: Vec<String>,
    /// Print each token's log-probability, and those of so many alternatives.
    #[arg(long, requires = "json", value_parser = RangedU64ValueParser::<usize>::new().range(..=LOGPROBS_MAX as u64), value_name = "N")]
    pub(crate) logprobs: Option<usize>,
    /// Print JSON, one object a prompt.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// The gateway of the system.
    #[arg(long, env = "ESPALIER_GATEWAY", default_value = "http://127.0.0.1:50051", value_name = "URL")]
    pub(crate) gateway: String,
    /// The time between two readings, from 100ms to 3600s: rates are the differences of two.
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "N(ms|s)")]
    pub(crate) interval: Duration,
    /// Print a table of what one interval shows, and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, one object a reading; with `--once` one only.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads a time between two readings.
fn interval(text: &str) -> Result<Duration, String> {
    const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
    let number = |digits: &str| digits.parse::<u64>().ok();
    let read = match text.strip_suffix("ms") {
        Some(digits) => number(digits).map(Duration::from_millis),
        None => text.strip_suffix('s').and_then(number).map(Duration::from_secs),
    };
    read.filter(|time| INTERVALS.contains(time)).ok_or_else(|| "a time is 100ms to 3600s".to_owned())
}

/// How long answers are, and whether they are drawn.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Answers {
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 128, value_name = "N")]
    pub(crate) max_tokens: u32,
    /// 0 takes the most probable token; above, tokens are drawn.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    pub(crate) temperature: f64,
    /// The same seed gives the same texts.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
}

/// How tokens are drafted and chosen.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Decoding {
    #[command(flatten)]
    pub(crate) answers: Answers,
    /// Draw from the so many most probable tokens only; 0 is all.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) top_k: u32,
    /// Draw from the most probable tokens that together hold this share only.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_name = "X")]
    pub(crate) top_p: f64,
    /// Draw from tokens at least so many times as probable as the most probable one only.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    pub(crate) min_p: f64,
    #[command(flatten)]
    pub(crate) shaping: ShapingArgs,
    /// How drafted tokens are accepted above temperature 0: `coupled` keeps the text of plain decoding with the same seed;
    /// `rejection` keeps its distribution only, with policies that do not choose among drawn tokens. At temperature 0 both
    /// are greedy decoding.
    #[arg(long, default_value_t = Acceptance::Coupled, value_name = "coupled|rejection")]
    pub(crate) acceptance: Acceptance,
    /// How trees are grown: a policy, with parameters if wanted.
    #[arg(long, value_name = "P[,key=value…]", long_help = policy_help())]
    pub(crate) policy: Option<String>,
    /// Who drafts: a drafter by name in the folder of models or by path, or `NAME:LAYERS` for its first layers; `ngram`
    /// for proposals from the text itself.
    #[arg(long, value_name = "D")]
    pub(crate) drafter: Option<String>,
    /// Decode with the target alone.
    #[arg(long)]
    pub(crate) no_speculation: bool,
}

/// How the text so far, or the user, makes tokens more or less likely.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ShapingArgs {
    /// Above 1, tokens that prompt or answer hold already become less likely (0.01 to 100).
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_name = "X")]
    pub(crate) repetition_penalty: f64,
    /// Taken off the logits of tokens that the answer holds already (-2 to 2).
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    pub(crate) presence_penalty: f64,
    /// Taken off the logits of tokens for each time that the answer holds them already (-2 to 2).
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    pub(crate) frequency_penalty: f64,
    /// Added to the logits of tokens, by their ids (-100 to 100).
    #[arg(long, value_delimiter = ',', value_parser = logit_bias, value_name = "TOKEN=X[,TOKEN=X…]")]
    pub(crate) logit_bias: Vec<(Token, f64)>,
}

impl Default for ShapingArgs {
    fn default() -> Self {
        Self { repetition_penalty: 1.0, presence_penalty: 0.0, frequency_penalty: 0.0, logit_bias: Vec::new() }
    }
}

/// Reads `TOKEN=X`.
fn logit_bias(text: &str) -> Result<(Token, f64), String> {
    let bias = text.split_once('=').and_then(|(token, bias)| Some((token.parse().ok()?, bias.parse().ok()?)));
    bias.ok_or_else(|| "a bias is written as TOKEN=X, with the id of a token and a number".to_owned())
}

impl Decoding {
    /// Greedy decoding of at most `max_tokens`, everything else as usual.
    pub(crate) fn greedy(max_tokens: u32) -> Self {
        Self::of(Answers { max_tokens, temperature: 0.0, seed: 0 })
    }

    /// What a measurement asks for, everything else as usual.
    pub(crate) fn of(answers: Answers) -> Self {
        Self {
            answers,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            shaping: ShapingArgs::default(),
            acceptance: Acceptance::Coupled,
            policy: None,
            drafter: None,
            no_speculation: false,
        }
    }
}

/// The policies' own help.
fn policy_help() -> String {
    format!("How trees are grown: a policy, with parameters if wanted.\n\n{}", espalier_speculation::policy_help())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// One forward pass over 1 to 32 tokens, next to what the machine allows at best; and eight sequences in one pass, next to
    /// eight passes.
    Kernels(Kernels),
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
    /// are refused for want of places are counted apart.
    Load(Load),
    /// Very many sequences, a third of them cancelled and a third with deadlines at random moments: nothing may be left.
    ///
    /// Clients are more than there are places, so some wait and some are refused. If afterwards a sequence has ended
    /// otherwise than it should, or a block, a place, a task or more than 5 % of memory is held that was not before, the
    /// exit code is 1.
    Soak(Soak),
    /// Two builds of this program in turns: kernels, one request at a time, drafters and load.
    ///
    /// `just perf COMMIT` builds the other one. A ratio is the median of the turns' ratios of speeds; above 1 the new build is
    /// faster. Its interval holds the true one in 95 of 100 cases: if it holds 1, nothing is proved.
    Perf(crate::bench::perf::Perf),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Kernels {
    /// Models to measure.
    #[arg(long, value_delimiter = ',', default_values = ["small", "medium"], value_name = "T[,T…]")]
    pub(crate) targets: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Decode {
    /// The model that answers.
    #[arg(long, default_value = "medium", value_name = "T")]
    pub(crate) target: String,
    /// Prompts, one JSON object a line.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) prompts: PathBuf,
    /// Only the first so many prompts.
    #[arg(long, default_value = "20", value_name = "N")]
    pub(crate) limit: NonZeroUsize,
    #[command(flatten)]
    pub(crate) decoding: Decoding,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Policies {
    /// The model that answers.
    #[arg(long, default_value = "medium", value_name = "T")]
    pub(crate) target: String,
    /// Who drafts: drafters by name or by path, `NAME:LAYERS` for first layers, `ngram` for proposals from the text
    /// itself. One that was made for another target is skipped.
    #[arg(long, value_delimiter = ',', default_value = crate::models::DEFAULT_DRAFTER, value_name = "D[,D…]")]
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

#[derive(Debug, clap::Args)]
pub(crate) struct Calibration {
    /// The model whose text is to be guessed.
    #[arg(long, default_value = "medium", value_name = "T")]
    pub(crate) target: String,
    /// Who guesses: a checkpoint, `NAME:LAYERS` for its first layers, or `ngram`.
    #[arg(long, default_value = crate::models::DEFAULT_DRAFTER, value_name = "D")]
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

/// The most requests at once, or places, that a load bench may be told of: as many as a verifier serves.
const AT_ONCE_MAX: u64 = espalier_verifier::SEQUENCES_LIMIT as u64;

/// The most requests of a turn, and the most seconds that one may take.
const REQUESTS_MAX: u64 = 65_536;
const DEADLINE_MAX: u64 = 3600;

#[derive(Debug, clap::Args)]
pub(crate) struct Load {
    /// The models that answer, in turns.
    #[arg(long, value_delimiter = ',', default_value = "medium", value_name = "T[,T…]")]
    pub(crate) targets: Vec<String>,
    /// Who drafts for all targets: a drafter by name or by path, `NAME:LAYERS` for first layers, `ngram` for proposals
    /// from the text itself.
    #[arg(long, default_value = crate::models::DEFAULT_DRAFTER, value_name = "D")]
    pub(crate) drafter: String,
    /// Compare with a drafter for each target, in the order of the targets, each a service of its own.
    #[arg(long, value_delimiter = ',', value_name = "D,D…")]
    pub(crate) drafters_each: Vec<String>,
    /// How trees are grown: a policy, with parameters if wanted; the gateway's usual one when absent.
    #[arg(long, value_name = "P[,key=value…]")]
    pub(crate) policy: Option<String>,
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
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=REQUESTS_MAX), value_name = "N")]
    pub(crate) requests: Option<usize>,
    /// Turns of each way at each level.
    #[arg(long, default_value = "2", value_name = "N")]
    pub(crate) repeats: NonZeroUsize,
    /// Requests that each verifier and drafter has places for; when absent as many as there are at once, or 64 with
    /// `--rate`.
    #[arg(long, value_parser = at_once(), value_name = "N")]
    pub(crate) places: Option<usize>,
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

#[derive(Debug, clap::Args)]
pub(crate) struct Soak {
    /// The model that answers.
    #[arg(long, default_value = "small", value_name = "T")]
    pub(crate) target: String,
    /// Who drafts: a drafter by name or by path, `NAME:LAYERS` for first layers, `ngram` for proposals from the text
    /// itself.
    #[arg(long, default_value = "small:2", value_name = "D")]
    pub(crate) drafter: String,
    /// Prompts, one JSON object a line.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) prompts: PathBuf,
    /// Only the first so many prompts.
    #[arg(long, default_value = "20", value_name = "N")]
    pub(crate) limit: NonZeroUsize,
    /// Sequences in all; a tenth as many come first and do not count.
    #[arg(long, default_value = "10000", value_name = "N")]
    pub(crate) sequences: NonZeroUsize,
    /// Clients, each of which asks again as soon as it has its answer.
    #[arg(long, default_value = "40", value_parser = at_once(), value_name = "N")]
    pub(crate) concurrency: usize,
    /// Requests that are served at once, and as many that wait.
    #[arg(long, default_value = "16", value_parser = at_once(), value_name = "N")]
    pub(crate) places: usize,
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

fn at_once() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=AT_ONCE_MAX)
}

/// Reads requests a second.
fn rate(text: &str) -> Result<f64, String> {
    const RATES: std::ops::RangeInclusive<f64> = 0.01..=10_000.0;
    let rate = text.parse().ok().filter(|rate| RATES.contains(rate));
    rate.ok_or_else(|| format!("requests a second are a number from {} to {}", RATES.start(), RATES.end()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn an_acceptance_that_does_not_exist_is_refused_with_those_that_do() {
        let flags = ["espalier", "generate", "--target=small", "--prompt=x", "--acceptance=typical"];
        let error = Args::try_parse_from(flags).map_err(|error| error.to_string());
        let told = "unknown acceptance `typical`; there are coupled and rejection";
        assert!(error.as_ref().is_err_and(|error| error.contains(told)), "{error:?}");
    }

    #[test]
    fn a_time_has_a_unit_and_bounds() {
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(interval("3600s"), Ok(Duration::from_secs(3600)));
        for wrong in ["", "1", "s", "99ms", "3601s", "-1s", "1.5s", "1m"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bias_is_a_token_and_a_number() {
        assert_eq!(logit_bias("17=-2.5"), Ok((17, -2.5)));
        for wrong in ["17", "=1", "x=1", "-1=1", "17=", "17=x"] {
            assert!(logit_bias(wrong).is_err(), "{wrong}");
        }
    }
}
