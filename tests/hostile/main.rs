//! Sends messages that no client of ours would send to every RPC of every service, many at once, while a client that behaves
//! well asks on: no process may end or panic, none may grow, every answer must be one that is meant for such a message, and
//! the good client's texts must be those of plain decoding.

// Like a test, it may fail loudly.
#![allow(clippy::unwrap_used)]

mod good;
mod report;
mod services;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use espalier_tests::hostile::{Case, Line, Plan, Rpc, Surroundings, volley, wrong};
use futures::StreamExt;

use crate::good::Good;
use crate::report::{Memory, Report, Tally};
use crate::services::Services;

/// Sends malformed messages to every RPC, and holds all answers against what is meant for such
#[derive(Debug, Parser)]
struct Args {
    /// Messages to each RPC
    #[arg(long, default_value_t = 100_000)]
    count: usize,
    /// Decides on all messages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Messages that are under way at once
    #[arg(long, default_value_t = 48)]
    at_once: usize,
    /// Send one message alone and show it: an RPC and a number, as the report names them, like `verifier Verify 7`
    #[arg(long, value_name = "RPC NUMBER")]
    replay: Option<String>,
    /// Where the programs of the services are; the folder of this one when absent
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Where the services write their logs
    #[arg(long, default_value = "target/hostile")]
    logs: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// How long the good client is measured alone.
const ALONE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let programs = espalier_tests::programs(args.programs.clone());
    std::fs::create_dir_all(&args.logs).unwrap();
    let services = Services::start(&programs, &args.logs).await;
    let around = Surroundings {
        target: services::TARGET.to_owned(),
        verifier: services.addresses.verifier.clone(),
        nowhere: services.nowhere.clone(),
    };
    let plan = Plan { seed: args.seed, count: args.count, at_once: args.at_once, around };
    if let Some(name) = &args.replay {
        return replay(name, &plan, &services).await;
    }
    let report = attack(&plan, &services).await;
    report.print(args.json);
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Sends all, with the good client beside it.
async fn attack(plan: &Plan, services: &Services) -> Report {
    let good = Good::new(&services.addresses.gateway).await;
    let alone = good.ask_for(ALONE).await;
    let asking = good.go_on();
    let (begun, mut tally, mut memory) = (Instant::now(), Tally::default(), Memory::default());
    let all = plan.count * Rpc::all().len();
    let mut sent = std::pin::pin!(volley(plan, &services.addresses));
    while let Some(one) = sent.next().await {
        tally.add(one);
        if tally.sent() == all.div_ceil(10) {
            memory.early = services.resident();
        }
        if tally.sent() % 50_000 == 0 {
            eprintln!("{} of {all} were sent, {} answers are wrong", tally.sent(), tally.wrong());
        }
    }
    let took = begun.elapsed();
    let beside = asking.stop().await;
    memory.late = services.resident();
    Report { tally, memory, alone, beside, took, faults: services.faults().await }
}

/// Sends one case alone.
async fn replay(name: &str, plan: &Plan, services: &Services) -> ExitCode {
    let (rpc, number) = name.rsplit_once(' ').unwrap();
    let index = Rpc::all().iter().position(|known| known.to_string() == rpc).unwrap();
    let case = Case::new(plan.seed, index, number.parse().unwrap(), &plan.around);
    println!("{case:?}");
    let ended = Line::new(services.addresses.of(case.rpc.role)).send(&case).await;
    println!("{ended:?}");
    let faults: Vec<String> = wrong(&case, &ended).into_iter().chain(services.faults().await).collect();
    faults.iter().for_each(|fault| println!("wrong: {fault}"));
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
