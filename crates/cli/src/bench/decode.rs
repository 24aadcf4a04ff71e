//! `espalier bench decode`: plain and speculative decoding, prompt by prompt in one run.

use espalier_client::{Answer, Client};
use espalier_proto::GenerationRequest;
use espalier_speculation::Acceptance;
use serde::Serialize;

use super::statistics::median;
use crate::Verdict;
use crate::args::{Decode, SystemArgs};
use crate::error::CliError;
use crate::request::{Form, request};
use crate::system::Local;
use crate::{prompts, report};

/// What a comparison found, over all prompts.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) target: String,
    pub(crate) drafter: String,
    pub(crate) policy: String,
    pub(crate) prompts: usize,
    /// Prompts whose texts differ.
    pub(crate) different: usize,
    pub(crate) tokens: usize,
    pub(crate) rounds: u64,
    pub(crate) drafted: u64,
    pub(crate) verified: u64,
    pub(crate) accepted: u64,
    /// Committed tokens per round.
    pub(crate) tau: f64,
    /// Medians over prompts, after the first tokens.
    pub(crate) plain_tokens_per_second: f64,
    pub(crate) speculative_tokens_per_second: f64,
    /// Median over prompts of one divided by the other.
    pub(crate) speedup: f64,
    /// Shares of the speculative time.
    pub(crate) draft_share: f64,
    pub(crate) verify_share: f64,
    pub(crate) wait_share: f64,
}

impl Comparison {
    /// Whether every text is the one of plain decoding.
    pub(crate) fn identical(&self) -> bool {
        self.different == 0
    }

    fn of(target: &str, pairs: &[(Answer, Answer)]) -> Self {
        let speculation = |f: fn(&espalier_proto::SpeculationSummary) -> u64| -> u64 {
            pairs.iter().map(|(_, speculative)| f(&speculative.completion.speculation)).sum()
        };
        let seconds = |f: fn(&espalier_proto::SpeculationSummary) -> std::time::Duration| -> f64 {
            pairs.iter().map(|(_, speculative)| f(&speculative.completion.speculation).as_secs_f64()).sum()
        };
        let rates = |f: fn(&(Answer, Answer)) -> Option<f64>| median(pairs.iter().filter_map(f)).unwrap_or(f64::NAN);
        let (draft, verify, wait) = (seconds(|s| s.draft), seconds(|s| s.verify), seconds(|s| s.wait));
        let last = pairs.last().map(|(_, speculative)| &speculative.completion.speculation);
        let (tokens, rounds) = (pairs.iter().map(|(_, s)| s.tokens.len()).sum(), speculation(|s| s.rounds));
        Self {
            target: target.to_owned(),
            drafter: last.map_or_else(String::new, |s| s.drafter.clone()),
            policy: last.map_or_else(String::new, |s| s.policy.clone()),
            prompts: pairs.len(),
            different: pairs.iter().filter(|(plain, speculative)| differ(plain, speculative)).count(),
            tokens,
            rounds,
            drafted: speculation(|s| s.drafted),
            verified: speculation(|s| s.verified),
            accepted: speculation(|s| s.accepted),
            tau: tokens as f64 / rounds as f64,
            plain_tokens_per_second: rates(|(plain, _)| plain.decoded_per_second()),
            speculative_tokens_per_second: rates(|(_, speculative)| speculative.decoded_per_second()),
            speedup: rates(|(plain, speculative)| {
                Some(speculative.decoded_per_second()? / plain.decoded_per_second()?)
            }),
            draft_share: draft / (draft + verify + wait),
            verify_share: verify / (draft + verify + wait),
            wait_share: wait / (draft + verify + wait),
        }
    }
}

fn differ(plain: &Answer, speculative: &Answer) -> bool {
    plain.ids() != speculative.ids() || plain.text() != speculative.text()
}

/// Answers each request plainly and speculatively, in turns; `done` hears of every pair.
pub(crate) async fn compare(
    client: &mut Client,
    requests: &[GenerationRequest],
    mut done: impl FnMut(usize),
) -> Result<Comparison, CliError> {
    let mut pairs = Vec::with_capacity(requests.len());
    for (i, request) in requests.iter().enumerate() {
        let plain = GenerationRequest { speculate: false, drafter: None, ..request.clone() };
        // Which goes first changes from prompt to prompt: neither has the warmer machine.
        let pair = if i % 2 == 0 {
            let plain = client.generate(plain, |_| {}).await?;
            (plain, client.generate(request.clone(), |_| {}).await?)
        } else {
            let speculative = client.generate(request.clone(), |_| {}).await?;
            (client.generate(plain, |_| {}).await?, speculative)
        };
        pairs.push(pair);
        done(i);
    }
    let target = requests.first().map_or("", |request| request.target.as_str());
    Ok(Comparison::of(target, &pairs))
}

pub(crate) async fn run(system: &SystemArgs, args: &Decode) -> Result<Verdict, CliError> {
    let prompts = prompts::read(&args.prompts, Some(args.limit.get()))?;
    let local = Local::start(&args.target, &args.decoding, system).await?;
    let requests = prompts.iter().map(|prompt| {
        let request = request(&local.target, prompt, Form::Chat, &args.decoding)?;
        Ok(GenerationRequest { drafter: local.drafter.clone(), ..request })
    });
    let requests = requests.collect::<Result<Vec<_>, CliError>>()?;
    let promised = requests.iter().all(|request| request.sampling.acceptance() == Acceptance::Coupled);
    let bar = report::progress(requests.len() as u64, "prompts");
    let compared = compare(&mut local.client()?, &requests, |_| bar.inc(1)).await;
    bar.finish_and_clear();
    local.stop().await?;
    let compared = compared?;
    if args.json {
        report::json(&compared);
    } else {
        print(&compared, promised);
    }
    Ok((compared.identical() || !promised).into())
}

/// `promised`: whether the texts have to be alike.
fn print(compared: &Comparison, promised: bool) {
    let identical = if promised { report::yes(compared.identical()) } else { "not promised by rejection".to_owned() };
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let rows = [
        ("target", compared.target.clone()),
        ("drafter", compared.drafter.clone()),
        ("policy", compared.policy.clone()),
        ("prompts", compared.prompts.to_string()),
        ("tokens", compared.tokens.to_string()),
        ("rounds", compared.rounds.to_string()),
        ("tau", format!("{:.3}", compared.tau)),
        ("accepted / verified nodes", format!("{} / {}", compared.accepted, compared.verified)),
        ("time drafting", percent(compared.draft_share)),
        ("time verifying", percent(compared.verify_share)),
        ("time waiting", percent(compared.wait_share)),
        ("plain tokens/s (median)", format!("{:.0}", compared.plain_tokens_per_second)),
        ("speculative tokens/s (median)", format!("{:.0}", compared.speculative_tokens_per_second)),
        ("speed-up (median of prompts)", format!("{:.2}x", compared.speedup)),
        ("identical to plain decoding", identical),
    ];
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    anstream::println!("{}", report::table(&["", ""], rows));
}
