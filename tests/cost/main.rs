//! What TLS, telemetry or HTTP costs: the same load on two systems of processes, one with it and one without, in turns.

// Like a test, it may fail loudly.
#![allow(clippy::unwrap_used)]

mod asker;
mod system;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use espalier_client::Client;
use espalier_proto::GenerationRequest;
use espalier_tests::{Certificates, Collector, answer, prompts, request, sampling};
use futures::future::join_all;
use serde_json::json;

use crate::asker::Asker;
use crate::system::{Extra, System, TARGET};

/// Measures throughput with something against throughput without it
#[derive(Debug, Parser)]
struct Args {
    /// What one of the two systems has
    #[arg(value_enum)]
    with: With,
    /// Clients that ask at once
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seconds of each measurement: one of each system for each turn
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Turns
    #[arg(long, default_value_t = 9)]
    turns: usize,
    /// Where the programs of the services are; the folder of this one when absent
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// What is measured the cost of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum With {
    /// Every connection under TLS
    Tls,
    /// Metrics scraped every second, and metrics and the usual share of traces sent to a collector
    Telemetry,
    /// Clients that speak OpenAI's API in place of gRPC
    Http,
}

impl With {
    /// The share of its throughput that a system keeps at least.
    fn kept_min(self) -> f64 {
        match self {
            Self::Tls | Self::Http => 0.97,
            Self::Telemetry => 0.99,
        }
    }

    /// What the other system is.
    fn without(self) -> &'static str {
        match self {
            Self::Tls => "in the clear",
            Self::Telemetry => "without telemetry",
            Self::Http => "over gRPC",
        }
    }
}

const TOKENS: usize = 64;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let programs = espalier_tests::programs(args.programs.clone());
    let certificates = Certificates::new();
    let (_collector, collected_at) = Collector::start().await;
    let extra = match args.with {
        With::Tls => Extra::Locked(&certificates),
        With::Telemetry => Extra::Watched(collected_at),
        With::Http => Extra::None,
    };
    let without = System::start(&programs, &Extra::None).await;
    let with = System::start(&programs, &extra).await;
    let questions = questions(&without.client).await;
    let load = Load { clients: args.clients, questions, span: Duration::from_secs(args.seconds) };
    let over_http = args.with == With::Http;
    let mut kept = Vec::new();
    for turn in 0..=args.turns {
        // Whoever is first finds another machine than whoever is second.
        let of_with = async || load.throughput(&with, over_http).await;
        let of_without = async || load.throughput(&without, false).await;
        let ratio = if turn % 2 == 0 {
            let without = of_without().await;
            of_with().await / without
        } else {
            of_with().await / of_without().await
        };
        // The first turn warms both up.
        if turn > 0 {
            kept.push(ratio);
        }
    }
    kept.sort_by(f64::total_cmp);
    let (least, median, most) = (kept[0], kept[kept.len() / 2], kept[kept.len() - 1]);
    if args.json {
        println!("{}", json!({ "clients": args.clients, "kept": { "min": least, "median": median, "max": most } }));
    } else {
        let clients = args.clients;
        let without = args.with.without();
        println!("{clients} clients: {median:.3} of the throughput {without} ({least:.3} to {most:.3})");
    }
    if median >= args.with.kept_min() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A request, and the text of its answer.
struct Question {
    request: GenerationRequest,
    text: String,
}

/// Questions whose answers are held against what is right.
async fn questions(client: &Client) -> Vec<Question> {
    let mut questions = Vec::new();
    for (prompt, expected) in prompts(TARGET).into_iter().take(8) {
        let length = TOKENS.min(expected.len());
        let request = request(TARGET, &prompt, length, sampling(0.0, 0));
        let answer = answer(client, request.clone()).await;
        assert_eq!(answer.ids(), expected[..length]);
        questions.push(Question { request, text: answer.text() });
    }
    questions
}

/// Clients that ask one thing after the other.
struct Load {
    clients: usize,
    questions: Vec<Question>,
    span: Duration,
}

impl Load {
    /// Tokens per second of all clients; each answer is held against what is right.
    async fn throughput(&self, system: &System, over_http: bool) -> f64 {
        let begun = Instant::now();
        let ask = async |number: usize| {
            let mut asker = match over_http {
                true => Asker::over_http(system.gateway).await,
                false => Asker::Grpc(system.client.clone()),
            };
            let mut tokens = 0;
            for Question { request, text } in self.questions.iter().cycle().skip(number % self.questions.len()) {
                assert_eq!(asker.text(request).await, *text);
                tokens += request.max_tokens;
                if begun.elapsed() >= self.span {
                    break;
                }
            }
            tokens
        };
        let tokens: usize = join_all((0..self.clients).map(ask)).await.into_iter().sum();
        tokens as f64 / begun.elapsed().as_secs_f64()
    }
}
