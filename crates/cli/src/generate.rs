//! `espalier generate`.

use std::io::Write;

use espalier_client::{Answer, Client};
use espalier_proto::{GeneratedToken, GenerationRequest};
use espalier_speculation::{FinishReason, StopStrings};
use serde::Serialize;

use crate::Verdict;
use crate::args::{Generate, SystemArgs};
use crate::error::CliError;
use crate::request::{Form, request};
use crate::system::Local;
use crate::{prompts, report};

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
pub(crate) fn reason_name(reason: FinishReason) -> &'static str {
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
    ask(&args.target, "", args)?;
    match &args.gateway {
        Some(gateway) => {
            let mut client = Client::new(gateway)?;
            answer_all(&mut client, (&args.target, args.decoding.drafter.as_deref()), &prompts, args).await
        }
        None => {
            let local = Local::start(&args.target, &args.decoding, system).await?;
            let names = (local.target.as_str(), local.drafter.as_deref());
            let verdict = answer_all(&mut local.client()?, names, &prompts, args).await;
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
    Ok(GenerationRequest { stop_strings, logprobs: args.logprobs, ..request })
}

async fn answer_all(
    client: &mut Client,
    (target, drafter): (&str, Option<&str>),
    prompts: &[String],
    args: &Generate,
) -> Result<Verdict, CliError> {
    for (i, prompt) in prompts.iter().enumerate() {
        let mut request = ask(target, prompt, args)?;
        request.drafter = drafter.filter(|_| request.speculate).map(str::to_owned);
        if args.json {
            let answer = client.generate(request, |_| {}).await?;
            report::json(&Line::new(target, &answer));
            continue;
        }
        if prompts.len() > 1 {
            anstream::println!("{}", report::styled(report::FAINT, format!("[{}/{}]", i + 1, prompts.len())));
        }
        let answer = client.generate(request, show).await?;
        anstream::println!("{}", answer.completion.text);
        anstream::eprintln!("{}", report::styled(report::FAINT, summary(&answer)));
    }
    Ok(Verdict::Good)
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
pub(crate) fn summary(answer: &Answer) -> String {
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
