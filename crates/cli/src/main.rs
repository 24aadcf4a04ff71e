//! `espalier`: the whole system from one command.

mod access;
mod certs;
mod chat;
mod command_line;
mod completions;
mod convert;
mod demo;
mod doctor;
mod error;
mod explain;
mod folder;
mod generate;
mod golden;
mod key;
mod man;
mod plan;
mod probe;
mod pull;
#[cfg(test)]
mod reference;
mod serve;
mod top;
mod train;
mod tune;
mod vectors;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use espalier_command::{Verdict, report};
use espalier_local::{Renderer, render_chat_templates};
use espalier_service_kit::{Monitor, Program, Telemetry};
use tokio::runtime::{self, Runtime};

use self::command_line::{Args, Command};
use self::error::CliError;

/// What this is.
const PROGRAM: Program = Program { name: "espalier", version: env!("CARGO_PKG_VERSION") };

fn main() -> ExitCode {
    render_chat_templates().unwrap_or_else(command)
}

/// What the command line asks for.
fn command() -> ExitCode {
    let mut args = Args::parse();
    args.system.renderer = Renderer::this_program();
    if matches!(args.command, Some(Command::Train(_))) {
        quieten_candle();
    }
    match run(args) {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            anstream::eprintln!("{}", report::failure(&error));
            error.exit_code()
        }
    }
}

/// Keeps candle's helper threads out of a training's way, unless the environment says otherwise already.
fn quieten_candle() {
    let (name, value) = espalier_trainer::CANDLE_THREADS;
    if std::env::var_os(name).is_none() {
        // SAFETY: called at the beginning of `main`, before any other thread is started.
        unsafe { std::env::set_var(name, value) };
    }
}

fn run(args: Args) -> Result<Verdict, CliError> {
    let runtime = runtime()?;
    let telemetry = {
        let _inside = runtime.enter();
        Telemetry::install(PROGRAM, &args.telemetry)?
    };
    let verdict = run_on(&runtime, args, telemetry.monitor());
    runtime.block_on(telemetry.end());
    verdict
}

fn run_on(runtime: &Runtime, args: Args, monitor: &Monitor) -> Result<Verdict, CliError> {
    match args.command {
        None => runtime.block_on(demo::run(&args.system)),
        Some(Command::Serve(serve)) => runtime.block_on(serve::run(&args.system, &serve, monitor)),
        Some(Command::Generate(generate)) => runtime.block_on(generate::run(&args.system, &generate)),
        Some(Command::Explain(what)) => explain::run(&what),
        Some(Command::Chat(chat)) => runtime.block_on(chat::run(&args.system, &chat)),
        Some(Command::Top(top)) => runtime.block_on(top::run(&top)),
        Some(Command::Probe(probe)) => runtime.block_on(probe::run(&probe)),
        Some(Command::Doctor(doctor)) => runtime.block_on(doctor::run(&args.system, &doctor)),
        Some(Command::Pull(pull)) => runtime.block_on(pull::run(&args.system, &pull)),
        Some(Command::Certs(certs)) => certs::run(&certs),
        Some(Command::Key(key)) => key::run(&key),
        Some(Command::Completions(completions)) => Ok(completions::run(&completions, Args::command())),
        Some(Command::Man(man)) => man::run(&man, Args::command()),
        Some(Command::Golden(folder)) => golden::run(&folder, &args.system),
        Some(Command::Convert(convert)) => convert::run(&args.system, &convert),
        Some(Command::Vectors(folder)) => Ok(vectors::run(&folder)?),
        Some(Command::Tune(tune)) => runtime.block_on(tune::run(&args.system, &tune)),
        Some(Command::Train(train)) => runtime.block_on(train::run(&args.system, &train)),
        Some(Command::Plan(plan)) => plan::run(&args.system, &plan),
        Some(Command::Bench(bench)) => runtime.block_on(async { Ok(espalier_bench::run(&args.system, &bench).await?) }),
    }
}

/// A runtime whose threads leave half of the processors to the models.
fn runtime() -> Result<Runtime, CliError> {
    let workers = (espalier_local::processors() / 2).max(1);
    runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().map_err(CliError::Runtime)
}
