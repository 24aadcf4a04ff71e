//! `espalier generate`.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use clap::ArgGroup;
use clap::builder::RangedU64ValueParser;
use espalier_client::{Answer, Client};
use espalier_command::{Decoding, Form, OneTarget, Verdict, prompts, report, request};
use espalier_local::SystemArgs;
use espalier_proto::{GeneratedToken, GenerationRequest, RoundTrace};
use espalier_speculation::{Constraint, ConstraintKind, FinishReason, LOGPROBS_MAX, StopStrings};
use espalier_trace::{Round, Trace};
use serde::Serialize;

use crate::access::Access;
use crate::error::CliError;

/// How long a broken answer is asked for again without coming any further.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// The options of `espalier generate`.
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
    #[command(flatten)]
    pub(crate) access: Access,
    /// End the answer before this text; may be given several times.
    #[arg(long, allow_hyphen_values = true, value_name = "S")]
    pub(crate) stop: Vec<String>,
    /// What the answer is held to.
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
    /// Print each token's log-probability, and those of so many alternatives.
    #[arg(long, requires = "json", value_parser = RangedU64ValueParser::<usize>::new().range(..=LOGPROBS_MAX as u64), value_name = "N")]
    pub(crate) logprobs: Option<usize>,
    /// Write the rounds of the answer into a file, for `espalier explain`.
    #[arg(long, conflicts_with = "prompts", value_name = "FILE.json")]
    pub(crate) trace: Option<PathBuf>,
    /// Print JSON, one object a prompt.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What an answer is held to: one thing at most.
#[derive(Debug, Default, clap::Args)]
#[group(multiple = false)]
pub(crate) struct ConstraintArgs {
    /// Answer with JSON that the schema in this file allows.
    #[arg(long, value_name = "FILE.json")]
    json_schema: Option<PathBuf>,
    /// Answer with a text that this regular expression matches as a whole.
    #[arg(long, allow_hyphen_values = true, value_name = "R")]
    regex: Option<String>,
    /// Answer with a text of the grammar in this file, in llguidance's variant of Lark's syntax.
    #[arg(long, value_name = "FILE.lark")]
    grammar: Option<PathBuf>,
}

impl ConstraintArgs {
    /// The constraint, if there is one.
    fn read(&self) -> Result<Option<Constraint>, CliError> {
        let file =
            |path: &PathBuf| fs::read_to_string(path).map_err(|source| CliError::Read { path: path.clone(), source });
        let (kind, words) = match self {
            Self { json_schema: Some(path), .. } => (ConstraintKind::JsonSchema, file(path)?),
            Self { grammar: Some(path), .. } => (ConstraintKind::Grammar, file(path)?),
            Self { regex: Some(regex), .. } => (ConstraintKind::Regex, regex.clone()),
            Self { json_schema: None, grammar: None, regex: None } => return Ok(None),
        };
        Ok(Some(Constraint::new(kind, &words)?))
    }
}

/// One prompt's answer, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    target: &'a str,
    drafter: &'a str,
    policy: &'a str,
    prompt_tokens: usize,
    token_ids: Vec<u32>,
    text: String,
    finish_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_string: Option<&'a str>,
    /// One for each of the tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Vec<TokenLogprobs<'a>>>,
    rounds: u64,
    drafted: u64,
    accepted: u64,
    tau: Option<f64>,
    accepted_by_depth: &'a [u64],
    elapsed_ms: f64,
    tokens_per_second: f64,
}

/// What the target thought of a token: natural logarithms of its own probabilities, before any sampling parameter.
#[derive(Serialize)]
struct TokenLogprobs<'a> {
    token_id: u32,
    logprob: f64,
    top_logprobs: Vec<TopLogprob<'a>>,
}

/// One of the most probable tokens.
#[derive(Serialize)]
struct TopLogprob<'a> {
    token_id: u32,
    text: &'a str,
    logprob: f64,
}

impl<'a> TokenLogprobs<'a> {
    /// Those of `token`, if they were asked for.
    fn of(token: &'a GeneratedToken) -> Option<Self> {
        let top = token.alternatives.iter();
        let top = top.map(|other| TopLogprob { token_id: other.id, text: &other.text, logprob: other.logprob });
        Some(Self { token_id: token.id, logprob: token.logprob?, top_logprobs: top.collect() })
    }
}

/// The name of a reason as OpenAI's and others' interfaces spell it.
fn reason_name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

impl<'a> Line<'a> {
    fn new(target: &'a str, answer: &'a Answer) -> Self {
        let completion = &answer.completion;
        let speculation = &completion.speculation;
        Self {
            target,
            drafter: &speculation.drafter,
            policy: &speculation.policy,
            prompt_tokens: completion.prompt_tokens,
            token_ids: answer.ids(),
            text: answer.text(),
            finish_reason: reason_name(completion.reason),
            stop_string: completion.stop_string.as_deref(),
            logprobs: answer.tokens.iter().map(TokenLogprobs::of).collect(),
            rounds: speculation.rounds,
            drafted: speculation.drafted,
            accepted: speculation.accepted,
            tau: speculation.tau,
            accepted_by_depth: &speculation.accepted_by_depth,
            elapsed_ms: answer.elapsed.as_secs_f64() * 1e3,
            tokens_per_second: answer.tokens_per_second(),
        }
    }
}

pub(crate) async fn run(system: &SystemArgs, args: &Generate) -> Result<Verdict, CliError> {
    let prompts = match (&args.prompts, &args.prompt) {
        (Some(file), _) => prompts::read(file, args.limit.map(usize::from))?,
        (None, prompt) => prompt.iter().cloned().collect(),
    };
    // What is wrong with the request is said before anything is loaded.
    let constraint = args.constraint.read()?;
    ask(&args.target, "", args)?;
    match &args.gateway {
        Some(gateway) => {
            let mut client = args.access.client(gateway)?.resuming(PATIENCE);
            let names = Names { target: &args.target, drafter: args.decoding.drafter.as_deref() };
            answer_all(&mut client, names, &prompts, args, constraint.as_ref()).await
        }
        None => {
            let local = OneTarget::start(&args.target, &args.decoding, system).await?;
            let names = Names { target: &local.target, drafter: local.drafter.as_deref() };
            let verdict = answer_all(&mut local.client()?, names, &prompts, args, constraint.as_ref()).await;
            local.stop().await?;
            verdict
        }
    }
}

/// The request for one prompt.
fn ask(target: &str, prompt: &str, args: &Generate) -> Result<GenerationRequest, CliError> {
    let form = if args.raw { Form::Raw } else { Form::Chat };
    let stop_strings = StopStrings::new(args.stop.clone())?;
    let request = request(target, prompt, form, &args.decoding)?;
    Ok(GenerationRequest { stop_strings, logprobs: args.logprobs, rounds: args.trace.is_some(), ..request })
}

/// How requests name what they use.
#[derive(Debug, Clone, Copy)]
struct Names<'a> {
    target: &'a str,
    drafter: Option<&'a str>,
}

async fn answer_all(
    client: &mut Client,
    names: Names<'_>,
    prompts: &[String],
    args: &Generate,
    constraint: Option<&Constraint>,
) -> Result<Verdict, CliError> {
    for (i, prompt) in prompts.iter().enumerate() {
        let mut request = ask(names.target, prompt, args)?;
        request.constraint = constraint.cloned();
        request.drafter = names.drafter.filter(|_| request.speculate).map(str::to_owned);
        if args.json {
            let answer = client.generate(request, |_| {}).await?;
            report::json(&Line::new(names.target, &answer));
            write_trace(args, names.target, prompt, &answer)?;
            continue;
        }
        if prompts.len() > 1 {
            anstream::println!("{}", report::styled(report::FAINT, format!("[{}/{}]", i + 1, prompts.len())));
        }
        let answer = client.generate(request, show).await?;
        anstream::println!("{}", answer.completion.text);
        anstream::eprintln!("{}", report::styled(report::FAINT, summary(&answer)));
        write_trace(args, names.target, prompt, &answer)?;
    }
    Ok(Verdict::Good)
}

/// Writes the rounds of an answer, if that is wanted.
fn write_trace(args: &Generate, target: &str, prompt: &str, answer: &Answer) -> Result<(), CliError> {
    let Some(path) = &args.trace else { return Ok(()) };
    let trace = traced(target, prompt, answer);
    let written = serde_json::to_string(&trace).map_err(io::Error::from).and_then(|text| fs::write(path, text));
    written.map_err(|source| CliError::Write { path: path.clone(), source })
}

/// An answer and its rounds, each with the tokens that it committed.
fn traced(target: &str, prompt: &str, answer: &Answer) -> Trace {
    let (completion, mut tokens) = (&answer.completion, answer.tokens.as_slice());
    let of = |trace: &RoundTrace| {
        let own = tokens.split_off(..trace.tokens.min(tokens.len())).unwrap_or_default();
        Round::new(own, trace)
    };
    Trace {
        target: target.to_owned(),
        drafter: completion.speculation.drafter.clone(),
        policy: completion.speculation.policy.clone(),
        prompt: prompt.to_owned(),
        seed: completion.seed,
        rounds: answer.rounds.iter().map(of).collect(),
    }
}

/// Prints tokens as they come, those of the drafter marked.
pub(crate) fn show(tokens: &[GeneratedToken]) {
    let mut out = anstream::stdout().lock();
    for token in tokens {
        let piece = if token.drafted { report::styled(report::DRAFTED, &token.text) } else { token.text.clone() };
        // Whoever closed the output does not want the rest of it.
        let _ = write!(out, "{piece}");
    }
    let _ = out.flush();
}

/// An answer's figures in one line.
fn summary(answer: &Answer) -> String {
    let speculation = &answer.completion.speculation;
    format!(
        "{} tokens in {} rounds, {} tokens a round, {:.0} tokens/s, drafter {}, {}",
        answer.tokens.len(),
        speculation.rounds,
        report::figure(speculation.tau, 2),
        answer.tokens_per_second(),
        speculation.drafter,
        reason_name(answer.completion.reason),
    )
}
