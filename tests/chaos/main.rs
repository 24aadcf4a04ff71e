//! Breaks a whole system of real processes, one fault a second, while clients ask it, and holds every answer against
//! plain decoding: none may fail, none may differ by a byte, and few may be late.
//!
//! Two drafters, two replicas of each of two targets, and two gateways behind one address. A fault takes one process
//! away that another can stand in for: it is killed and started again, stopped for a while, or cut off from the network.
//! The last one that can do its work is left alone: nothing survives without any.

// Like a test, it may fail loudly.
#![allow(clippy::unwrap_used)]

mod fault;
mod front;
mod questions;
mod report;
mod service;
mod storm;
mod system;
mod timeline;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::report::Report;
use crate::system::System;
use crate::timeline::Timeline;

/// Kills, stops and cuts off services while they answer, and holds all answers against plain decoding
#[derive(Debug, Parser)]
struct Args {
    /// Answers that are asked for
    #[arg(long, default_value_t = 500)]
    generations: usize,
    /// Seconds over which they are asked for, evenly
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Decides on all faults: the same seed gives the same ones, as far as the services come back equally soon
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Restart all services one after the other, as an upgrade does, instead of faults at random
    #[arg(long)]
    rolling: bool,
    /// Where the programs of the services are; the folder of this one when absent
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Where the services write their logs
    #[arg(long, default_value = "target/chaos")]
    logs: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The latency that faults may add to 99 of 100 answers.
const ADDED_MAX: Duration = Duration::from_millis(1500);

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let programs = espalier_tests::programs(args.programs.clone());
    std::fs::create_dir_all(&args.logs).unwrap();
    let system = System::start(&programs, &args.logs).await;
    let questions = questions::ask_calmly(&system.client()).await;
    eprintln!("{} questions are answered without faults; now come the faults", questions.len());
    let timeline = Timeline::new(&args.logs);
    let plan = storm::Plan {
        generations: args.generations,
        span: Duration::from_secs(args.seconds),
        seed: args.seed,
        rolling: args.rolling,
        added_max: ADDED_MAX,
    };
    let (answers, faults) =
        storm::Storm { system: &system, questions: &questions, timeline: &timeline, plan }.run().await;
    // An upgrade may slow answers down: nobody waits for a service that is gone.
    let report = Report::new(&answers, &faults, (!args.rolling).then_some(ADDED_MAX));
    report.print(args.json);
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
