//! What a client that behaves well notices of a crowd that does not: readers that stall, connections that say nothing, and
//! long prompts that are sent and given up, each for a while, against the same client alone, in turns.

// Like a test, it may fail loudly.
#![allow(clippy::unwrap_used)]

mod crowds;
mod services;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use espalier_client::Client;
use espalier_speculation::Token;
use espalier_tests::{prompts, request, sampling};
use serde_json::json;

use crate::crowds::Crowd;
use crate::services::Services;

/// Measures a client that behaves well beside crowds that do not
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each measurement: one alone and one beside the crowd, for each turn
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Turns for each crowd
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Where the programs of the services are; the folder of this one when absent
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The share of its speed that the client keeps at least.
const KEPT_MIN: f64 = 0.8;

const TOKENS: usize = 64;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let programs = espalier_tests::programs(args.programs.clone());
    // A client has as many files as it opens connections.
    let _ = rlimit::increase_nofile_limit(2 * crowds::CONNECTIONS as u64);
    let services = Services::start(&programs).await;
    let mut good = Good::new(&services.url);
    good.speed(Duration::from_secs(2)).await;
    let mut is_good = true;
    for crowd in Crowd::ALL {
        let mut kept = Vec::new();
        for _ in 0..args.turns {
            let alone = good.speed(Duration::from_secs(args.seconds)).await;
            let gathered = crowd.gather(&services.url).await;
            let beside = good.speed(Duration::from_secs(args.seconds)).await;
            drop(gathered);
            kept.push(beside / alone);
        }
        kept.sort_by(f64::total_cmp);
        let (least, median, most) = (kept[0], kept[kept.len() / 2], kept[kept.len() - 1]);
        is_good &= median >= KEPT_MIN;
        let (name, memory) = (crowd.name(), services.gateway_bytes() >> 20);
        if args.json {
            println!(
                "{}",
                json!({ "crowd": name, "kept": { "min": least, "median": median, "max": most }, "gateway_mib": memory })
            );
        } else {
            println!("{name:<44} {median:.2} of its speed ({least:.2} to {most:.2}); gateway at {memory} MiB");
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The client that behaves well: one request after the other, each read to its end and held against what is right.
struct Good {
    client: Client,
    questions: Vec<(Vec<Token>, Vec<Token>)>,
}

impl Good {
    fn new(gateway: &str) -> Self {
        let client = Client::new(gateway).unwrap().named("good").unwrap();
        Self { client, questions: prompts(services::TARGET).into_iter().take(8).collect() }
    }

    /// Tokens per second.
    async fn speed(&mut self, span: Duration) -> f64 {
        let (begun, mut tokens) = (Instant::now(), 0);
        for (prompt, expected) in self.questions.iter().cycle() {
            let asked = request(services::TARGET, prompt, TOKENS.min(expected.len()), sampling(0.0, 0));
            let answer = self.client.generate(asked, |_| {}).await.unwrap();
            assert_eq!(answer.ids(), expected[..TOKENS.min(expected.len())]);
            tokens += answer.tokens.len();
            if begun.elapsed() >= span {
                break;
            }
        }
        tokens as f64 / begun.elapsed().as_secs_f64()
    }
}
