//! `espalier-verifier`: hosts one target model.

use std::error::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::Parser;
use espalier_model::Team;
use espalier_service_kit::{Program, Role, Telemetry, bind, failed, probe, ready, signal};
use espalier_verifier::{Args, Config, Target, serve};

/// What this is.
const PROGRAM: Program = Program { name: "espalier-verifier", version: env!("CARGO_PKG_VERSION") };

fn main() -> ExitCode {
    probe().unwrap_or_else(verifier)
}

#[tokio::main]
async fn verifier() -> ExitCode {
    let args = Args::parse();
    let processors = available_parallelism().map_or(1, NonZeroUsize::get);
    let config = match Config::from_args(&args, processors) {
        Ok(config) => config,
        Err(faults) => return faults.report("espalier-verifier"),
    };
    match run(&args, config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed("espalier-verifier", error.as_ref()),
    }
}

async fn run(args: &Args, config: Config) -> Result<(), Box<dyn Error>> {
    let telemetry = Telemetry::install(PROGRAM, &args.telemetry)?;
    args.monitor.open(telemetry.monitor()).await?;
    let watched = telemetry.monitor().service(Role::Verifier.name());
    let stop = signal()?;
    let tls = args.tls.server(Role::Verifier, &[Role::Gateway, Role::Drafter])?;
    let bound = bind(args.listen).await?.watched_as(watched).with_drain(args.drain.drain()).with_tls(tls);
    let target =
        tokio::task::spawn_blocking(move || Target::load(&config, &Team::new(config.threads()), |_, _| {})).await??;
    ready(format_args!("verifier of {} on {}", target.card().name, bound.url()));
    let served = serve(target, bound, stop).await;
    // Of a service that has failed, too: its last spans say the most.
    telemetry.end().await;
    Ok(served?)
}
