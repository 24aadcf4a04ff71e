//! `espalier bench soak`: very many sequences through one system, most of which do not come to their end, and then nothing
//! of them may be left.
//!
//! Of three sequences one is cancelled and one has a deadline, each at a random moment. Clients go by four names and are
//! more than the gateway has slots for, so some wait and some are refused. Long prompts come first, so that all blocks of
//! keys and values have their memory, and then a tenth as many sequences: what is compared is a system that has been at
//! work before and after, not a new one.

mod args;
mod drive;
mod ending;
mod fate;
mod fill;
mod level;
mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use espalier_client::Client;
use espalier_command::report::progress;
use espalier_command::{Decoding, Form, Verdict, request, start};
use espalier_local::{DrafterChoice, LocalError, Plan, System, SystemArgs};
use espalier_model::BlockCounts;
use espalier_proto::GenerationRequest;
use espalier_service_kit::{Bytes, MemoryBudget};

use self::drive::{Asking, Question};
use self::ending::Ending;
use self::level::Level;
use self::report::{Held, Report};
use crate::error::BenchError;
use crate::statistics::median;

pub use args::Soak;

/// Memory for keys and values of each model unless told otherwise: little, so that prefixes are evicted all the time.
const KV_MEMORY: MemoryBudget = MemoryBudget::Bytes(Bytes(96 << 20));

/// The part of the sequences that come before anything counts.
const WARM_UP: usize = 10;

/// The time within which sequences are cut off before it is known how long they take.
const SPAN_UNKNOWN: Duration = Duration::from_secs(1);

pub(crate) async fn run(system: &SystemArgs, args: &Soak) -> Result<Verdict, BenchError> {
    // What is wrong with the request is said before anything is loaded.
    let prompts = args.asked.read()?;
    let running = start(plan(system, args)?).await?;
    let found = soak(&running, &prompts, args).await;
    running.stop().await?;
    let report = found?;
    report.print(args.json);
    Ok(report.is_sound().into())
}

/// One target and one drafter. The gateway has fewer slots than there are clients, even with its queue; the services
/// behind it have more, as they hear of a cancellation later.
fn plan(system: &SystemArgs, args: &Soak) -> Result<Plan, BenchError> {
    let memory = Some(system.kv_memory.unwrap_or(KV_MEMORY));
    let system = SystemArgs { kv_memory: memory, ..system.clone() };
    let drafter = DrafterChoice::parse(&args.drafter.drafter, &system)?;
    let mut plan = Plan::new(&[&args.target], &[drafter], &system)?;
    for (config, _) in &mut plan.verifiers {
        *config = config.clone().with_sequences_max(2 * args.slots).map_err(LocalError::from)?;
    }
    Ok(Plan { requests_max: args.slots, queued_max: args.slots + args.slots / 2, ..plan })
}

/// Sends all sequences and tells what became of them, and what is left.
async fn soak(system: &System, prompts: &[String], args: &Soak) -> Result<Report, BenchError> {
    let at_first = blocks(system);
    let client = Client::new(system.gateway())?;
    let target = system.memory().first().map(|(name, _)| name.clone()).unwrap_or_default();
    let questions = questions(&client, &target, prompts, args.max_tokens).await?;
    let asking = |sequences, span, seed| {
        let bar = progress(sequences as u64, "sequences");
        Arc::new(Asking { client: client.clone(), questions: questions.clone(), sequences, span, seed, bar })
    };
    fill::blocks(system, &client).await?;
    let few = args.sequences.get().div_ceil(WARM_UP).max(args.concurrency);
    let warm_up = drive::all(asking(few, SPAN_UNKNOWN, !args.seed), args.concurrency).await?;
    connect(&client, &questions).await?;
    let before = Held { level: Level::settled(system, None).await, blocks: at_first };

    let begun = Instant::now();
    let endings = drive::all(asking(args.sequences.get(), span(&warm_up), args.seed), args.concurrency).await?;
    let took = begun.elapsed();
    connect(&client, &questions).await?;
    let level = Level::settled(system, Some(&before.level)).await;
    system.memory().iter().for_each(|(_, pool)| pool.forget_prefixes());
    Ok(Report::new(&endings, took, &before, &Held { level, blocks: blocks(system) }))
}

/// The blocks of each model, by the name of its service.
fn blocks(system: &System) -> Vec<(String, BlockCounts)> {
    system.memory().iter().map(|(name, pool)| (name.clone(), pool.counts())).collect()
}

/// One sequence to its end, after which all services are connected.
async fn connect(client: &Client, questions: &[Question]) -> Result<(), BenchError> {
    if let Some(question) = questions.first() {
        client.clone().generate(question.request.clone(), |_| {}).await?;
    }
    Ok(())
}

/// The prompts, each with the text that plain decoding alone gives.
async fn questions(
    client: &Client,
    target: &str,
    prompts: &[String],
    max_tokens: u32,
) -> Result<Vec<Question>, BenchError> {
    let decoding = Decoding::greedy(max_tokens);
    let mut questions = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        let request = request(target, prompt, Form::Chat, &decoding)?;
        let plain = GenerationRequest { speculate: false, ..request.clone() };
        let expected = client.clone().generate(plain, |_| {}).await?.ids();
        questions.push(Question { request, expected });
    }
    Ok(questions)
}

/// Within what time sequences are cut off, so that about half of them are: twice what they take.
fn span(endings: &[(fate::Fate, Ending)]) -> Duration {
    let took = endings.iter().filter_map(|(_, ending)| match ending {
        Ending::Finished { took, .. } => Some(took.as_secs_f64()),
        _ => None,
    });
    median(took).map_or(SPAN_UNKNOWN, |seconds| Duration::from_secs_f64(2.0 * seconds))
}
