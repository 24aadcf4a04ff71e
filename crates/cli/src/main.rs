//! `espalier`: the whole system from one command.

mod args;
mod bench;
mod demo;
mod error;
mod generate;
mod golden;
mod models;
mod predictors;
mod prompts;
mod report;
mod request;
mod serve;
mod system;
mod top;
mod train;
mod tune;
mod unique;
mod vectors;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Bench, Command};
use error::CliError;
use espalier_service_kit::Telemetry;

fn main() -> ExitCode {
    let args = Args::parse();
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

/// What a command that judges something found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// All is as it should be.
    Good,
    /// Something is not: exit code 1.
    Bad,
    /// It was told to stop before its end: exit code 130, as of a shell's child that SIGINT ended.
    Interrupted,
}

impl From<bool> for Verdict {
    fn from(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::SUCCESS,
            Verdict::Bad => Self::FAILURE,
            Verdict::Interrupted => Self::from(130),
        }
    }
}

fn run(args: Args) -> Result<Verdict, CliError> {
    let _telemetry = Telemetry::install("espalier", &args.telemetry)?;
    match args.command {
        None => block_on(demo::run(&args.system)),
        Some(Command::Serve(serve)) => block_on(serve::run(&args.system, &serve)),
        Some(Command::Generate(generate)) => block_on(generate::run(&args.system, &generate)),
        Some(Command::Top(top)) => block_on(top::run(&top)),
        Some(Command::Golden(folder)) => golden::run(&folder),
        Some(Command::Vectors(folder)) => vectors::run(&folder),
        Some(Command::Tune(tune)) => block_on(tune::run(&args.system, &tune)),
        Some(Command::Train(train)) => block_on(train::run(&args.system, &train)),
        Some(Command::Bench(Bench::Kernels(kernels))) => bench::kernels::run(&args.system, &kernels),
        Some(Command::Bench(Bench::Decode(decode))) => block_on(bench::decode::run(&args.system, &decode)),
        Some(Command::Bench(Bench::Policies(policies))) => block_on(bench::policies::run(&args.system, &policies)),
        Some(Command::Bench(Bench::Load(load))) => block_on(bench::load::run(&args.system, &load)),
        Some(Command::Bench(Bench::Soak(soak))) => block_on(bench::soak::run(&args.system, &soak)),
        Some(Command::Bench(Bench::Perf(perf))) => Ok(bench::perf::run(&args.system, &perf)?),
        Some(Command::Bench(Bench::Calibration(calibration))) => bench::calibration::run(&args.system, &calibration),
    }
}

/// Runs a command on a runtime of its own, whose threads leave half of the processors to the models.
fn block_on<T>(command: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let workers = (espalier_local::processors() / 2).max(1);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(workers).enable_all().build().map_err(CliError::Runtime)?.block_on(command)
}
