//! Texts that are held to schemas, regular expressions and grammars: whether all are valid and the same with and without
//! speculation, and how fast they are beside texts that are held to nothing.

// Like a test, it may fail loudly.
#![allow(clippy::unwrap_used)]

mod cases;
mod valid;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use espalier_client::{Answer, Client};
use espalier_proto::GenerationRequest;
use espalier_speculation::{FinishReason, Sampling, Token};
use espalier_tests::{answer, client, plan, prompts, request, sampling};
use serde_json::json;

use crate::cases::{Case, cases};

/// Holds texts to constraints, with and without speculation
#[derive(Debug, Parser)]
struct Args {
    /// The target
    #[arg(long, default_value = "medium")]
    target: String,
    /// Texts, with all constraints in turn
    #[arg(long, default_value_t = 500)]
    count: usize,
    /// Threads of the target, and of the drafter
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// How trees are grown
    #[arg(long)]
    policy: Option<String>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Tokens of a text at most: more than any of the constraints lets one have.
const TOKENS_MAX: usize = 400;

/// The share of the speed of texts that are held to nothing that others must have at least.
const PACE_MIN: f64 = 0.85;

/// What texts of some kind came to.
#[derive(Debug, Default)]
struct Tally {
    tokens: usize,
    /// Held, and drafted for.
    held: Duration,
    /// Held, by the target alone.
    plain: Duration,
    /// Of as many tokens that are held to nothing, and drafted for.
    free: Duration,
    rounds: u64,
    free_rounds: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let system =
        espalier_local::System::start(plan(&[&args.target], None, args.threads), |_: &str, _, _| {}).await.unwrap();
    let run = Run { client: client(&system), prompts: prompts(&args.target), args: &args };
    let (cases, mut tallies, mut faults) = (cases(), BTreeMap::<&str, Tally>::new(), Vec::new());
    // The first texts pay for what is made when it is first needed, and find out what rounds cost.
    for case in &cases {
        run.ask(case, 0, &mut Tally::default()).await;
    }
    for number in 0..args.count {
        let case = &cases[number % cases.len()];
        let tally = tallies.entry(case.constraint.kind().name()).or_default();
        faults.extend(run.ask(case, number, tally).await);
    }
    system.stop().await.unwrap();
    let pace = report(&args, &tallies, &faults);
    if faults.is_empty() && pace >= PACE_MIN { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A system that is asked.
struct Run<'a> {
    client: Client,
    prompts: Vec<(Vec<Token>, Vec<Token>)>,
    args: &'a Args,
}

impl Run<'_> {
    /// A text, in all three ways; what is wrong with it.
    async fn ask(&self, case: &Case, number: usize, tally: &mut Tally) -> Option<String> {
        let (prompt, _) = &self.prompts[number % self.prompts.len()];
        let sampling: Sampling = if number.is_multiple_of(2) { sampling(0.0, 0) } else { sampling(0.8, number as u64) };
        let asked = GenerationRequest {
            policy: self.args.policy.clone(),
            ..request(&self.args.target, prompt, TOKENS_MAX, sampling)
        };
        let held = GenerationRequest { constraint: Some(case.constraint.clone()), ..asked.clone() };
        let drafted = answer(&self.client, held.clone()).await;
        let plain = answer(&self.client, GenerationRequest { speculate: false, ..held }).await;
        let free = answer(&self.client, GenerationRequest { max_tokens: drafted.tokens.len(), ..asked }).await;
        // One that is held to nothing may end sooner.
        let as_long = drafted.tokens.len() as f64 / free.tokens.len() as f64;
        tally.tokens += drafted.tokens.len();
        tally.held += drafted.elapsed;
        tally.plain += plain.elapsed;
        tally.free += free.elapsed.mul_f64(as_long);
        tally.rounds += drafted.completion.speculation.rounds;
        tally.free_rounds += (free.completion.speculation.rounds as f64 * as_long).round() as u64;
        fault(case, &drafted, &plain)
    }
}

/// What is wrong with a text, if anything is.
fn fault(case: &Case, drafted: &Answer, plain: &Answer) -> Option<String> {
    let (text, words) = (drafted.text(), case.constraint.words());
    if (drafted.ids(), drafted.text(), drafted.completion.reason)
        != (plain.ids(), plain.text(), plain.completion.reason)
    {
        return Some(format!("with speculation `{text}`, without `{}`: {words}", plain.text()));
    }
    if drafted.completion.reason != FinishReason::Stop {
        return Some(format!("`{text}` did not end: {words}"));
    }
    (case.check)(&case.constraint, &text).err().map(|why| format!("`{text}` is not valid, {why}: {words}"))
}

/// Tells what came of it; gives the pace of texts that are held to something beside others.
fn report(args: &Args, tallies: &BTreeMap<&str, Tally>, faults: &[String]) -> f64 {
    let sum = |of: fn(&Tally) -> Duration| tallies.values().map(of).sum::<Duration>().as_secs_f64();
    let tokens: usize = tallies.values().map(|tally| tally.tokens).sum();
    let (held, plain, free) = (sum(|tally| tally.held), sum(|tally| tally.plain), sum(|tally| tally.free));
    let kinds = tallies.iter().map(|(kind, tally)| {
        let per_second = |time: Duration| tally.tokens as f64 / time.as_secs_f64();
        let told = json!({
            "tokens": tally.tokens, "per_second": per_second(tally.held), "plain_per_second": per_second(tally.plain),
            "unconstrained_per_second": per_second(tally.free), "tau": tally.tokens as f64 / tally.rounds as f64,
            "unconstrained_tau": tally.tokens as f64 / tally.free_rounds as f64,
        });
        ((*kind).to_owned(), told)
    });
    let kinds: serde_json::Map<_, _> = kinds.collect();
    faults.iter().take(10).for_each(|fault| eprintln!("{fault}"));
    if args.json {
        let paces = json!({"of_unconstrained": free / held, "of_plain": plain / held});
        println!(
            "{}",
            json!({"texts": args.count, "tokens": tokens, "faults": faults.len(), "pace": paces, "kinds": kinds})
        );
    } else {
        println!("{} texts of {tokens} tokens, {} of them faulty", args.count, faults.len());
        for (kind, told) in &kinds {
            println!("{kind}: {told}");
        }
        let [held, plain, free] = [held, plain, free].map(|seconds| tokens as f64 / seconds);
        println!("{held:.0} tokens/s, {free:.0} where nothing is asked for, {plain:.0} without speculation");
    }
    free / held
}
