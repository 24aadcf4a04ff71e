//! The demonstration: one drafter for two targets, compared with plain decoding.

use std::time::{Duration, Instant};

use espalier_bench::{Comparison, Costs, compare};
use espalier_client::Client;
use espalier_command::{Decoding, Form, Verdict, prompts, report, request, start};
use espalier_local::{DEFAULT_DRAFTER, DEFAULT_TARGETS, DrafterChoice, LocalError, Plan, SystemArgs, checkpoint};
use espalier_proto::GenerationRequest;

use crate::error::CliError;
use crate::generate;

/// The file of questions in each target's folder: some of GSM8K's test set (MIT licence, openai/grade-school-math), which
/// the benchmarks ask too.
const QUESTIONS: &str = "greedy.jsonl";

/// The drafter that was made for one target alone, and that target.
const SPECIALIST: Pair = Pair { target: "medium", drafter: "medium-edd" };

/// Most tokens of an answer, as in the benchmarks.
const ANSWER_TOKENS_MAX: u32 = 128;

/// After so long no further question is asked of a pair: with three of them it is over within a minute on a slow machine.
const PAIR_TIME_MAX: Duration = Duration::from_secs(14);

/// The least speed-up that is worth having; below it, the reason is told.
const GAIN_MIN: f64 = 1.05;

const HEADER: [&str; 9] = [
    "target",
    "drafter",
    "tokens",
    "rounds",
    "tau",
    "tokens/s",
    "plain tokens/s",
    "speed-up",
    "identical to plain decoding",
];

/// Who answers and who drafts.
#[derive(Debug, Clone, Copy)]
struct Pair {
    target: &'static str,
    drafter: &'static str,
}

pub(crate) async fn run(system: &SystemArgs) -> Result<Verdict, CliError> {
    let questions = prompts::read(&checkpoint(SPECIALIST.target, system)?.join(QUESTIONS), None)?;
    let drafters = [DEFAULT_DRAFTER, SPECIALIST.drafter].map(|name| DrafterChoice::parse(name, system));
    let drafters = drafters.into_iter().collect::<Result<Vec<_>, LocalError>>()?;
    let running = start(Plan::new(&DEFAULT_TARGETS, &drafters, system)?).await?;
    let verdict = show(Client::new(running.gateway())?, &questions).await;
    running.stop().await?;
    verdict
}

async fn show(mut client: Client, questions: &[String]) -> Result<Verdict, CliError> {
    let everyone = DEFAULT_TARGETS.map(|target| Pair { target, drafter: DEFAULT_DRAFTER });
    if let Some(question) = questions.first() {
        anstream::println!("{}", report::styled(report::FAINT, question));
        for pair in everyone {
            stream(&mut client, pair, question).await?;
        }
    }
    let mut compared = Vec::new();
    for pair in everyone.into_iter().chain([SPECIALIST]) {
        compared.push(measure(&mut client, pair, questions).await?);
    }
    print(&compared);
    Ok(compared.iter().all(Comparison::identical).into())
}

/// Shows an answer as it comes.
async fn stream(client: &mut Client, pair: Pair, question: &str) -> Result<(), CliError> {
    let green = report::styled(report::DRAFTED, "green tokens");
    anstream::println!("\n{}, {green} drafted by {}:", pair.target, pair.drafter);
    client.generate(ask(pair, question)?, generate::show).await?;
    anstream::println!();
    Ok(())
}

fn ask(pair: Pair, question: &str) -> Result<GenerationRequest, CliError> {
    let request = request(pair.target, question, Form::Chat, &Decoding::greedy(ANSWER_TOKENS_MAX))?;
    Ok(GenerationRequest { drafter: Some(pair.drafter.to_owned()), ..request })
}

/// Plain and speculative decoding of every question in turns, after one answer each way that does not count.
async fn measure(client: &mut Client, pair: Pair, questions: &[String]) -> Result<Comparison, CliError> {
    let requests = questions.iter().map(|question| ask(pair, question)).collect::<Result<Vec<_>, _>>()?;
    compare(client, requests.first().cloned(), || {}).await?;
    let bar = report::progress(requests.len() as u64, &format!("{}, {}", pair.target, pair.drafter));
    let begun = Instant::now();
    let in_time = requests.into_iter().take_while(|_| begun.elapsed() < PAIR_TIME_MAX);
    let compared = compare(client, in_time, || bar.inc(1)).await;
    bar.finish_and_clear();
    Ok(compared?)
}

fn print(compared: &[Comparison]) {
    let questions = compared.iter().map(|pair| pair.prompts).max().unwrap_or(0);
    anstream::println!("\n{}", table(compared));
    anstream::println!(
        "tau: tokens that one pass of the target commits on average; without speculation it is 1. \
         Medians of {questions} questions, each answered both ways in turns."
    );
    for pair in compared.iter().filter(|pair| pair.speedup < GAIN_MIN) {
        anstream::println!("{}", why_no_gain(pair));
    }
}

fn table(compared: &[Comparison]) -> comfy_table::Table {
    let row = |pair: &Comparison| {
        vec![
            pair.target.clone(),
            pair.drafter.clone(),
            (pair.tokens / pair.prompts).to_string(),
            (pair.rounds as usize / pair.prompts).to_string(),
            report::figure(Some(pair.tau), 2),
            report::figure(Some(pair.speculative_tokens_per_second), 0),
            report::figure(Some(pair.plain_tokens_per_second), 0),
            format!("{}x", report::figure(Some(pair.speedup), 2)),
            report::yes(pair.identical()),
        ]
    };
    report::table(&HEADER, compared.iter().map(row))
}

/// One sentence: what a round's parts cost here next to a plain step.
fn why_no_gain(pair: &Comparison) -> String {
    let Comparison { target, drafter, tau, costs, .. } = pair;
    let Costs { draft_level_ms, verification_ms, plain_step_ms } = costs;
    let Some(level_ms) = draft_level_ms else {
        return format!(
            "{target} gains nothing from {drafter} on this machine: drafting was tried, did not pay, and was left off."
        );
    };
    format!(
        "{target} gains nothing from {drafter} on this machine: a plain step makes one token; a round made {tau:.2}, and \
         took {:.2} of a plain step's time for each level of its draft and {:.2} for its verification.",
        level_ms / plain_step_ms,
        verification_ms / plain_step_ms
    )
}
