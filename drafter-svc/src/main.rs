//! `espalier-drafter`: the drafter as a process of its own.

use std::process::ExitCode;

use clap::Parser;
use espalier_drafter::{Args, Config, Drafter, serve};
use espalier_model::Team;
use espalier_service_kit::{Program, Role, Telemetry, bind, failed, probe, ready, signal};

/// What this is.
const PROGRAM: Program = Program { name: "espalier-drafter", version: env!("CARGO_PKG_VERSION") };

fn main() -> ExitCode {
    probe().unwrap_or_else(drafter)
}

fn drafter() -> ExitCode {
    let args = Args::parse();
    let config = match Config::from_args(&args) {
        Ok(config) => config,
        Err(faults) => return faults.report("espalier-drafter"),
    };
    match run(&args, config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed("espalier-drafter", error.as_ref()),
    }
}

#[tokio::main]
async fn run(args: &Args, config: Config) -> Result<(), Box<dyn std::error::Error>> {
    let telemetry = Telemetry::install(PROGRAM, &args.telemetry)?;
    args.monitor.open(telemetry.monitor()).await?;
    let watched = telemetry.monitor().service(Role::Drafter.name());
    let shutdown = signal()?;
    let config = Config { dialer: args.tls.dialer(Role::Drafter)?, ..config };
    let tls = args.tls.server(Role::Drafter, &[Role::Gateway])?;
    let bound = bind(config.listen).await?.watched_as(watched).with_drain(args.drain.drain()).with_tls(tls);
    let load = move || Drafter::load(&config, &Team::new(config.threads.get()));
    let drafter = tokio::task::spawn_blocking(load).await??;
    ready(format_args!("drafter {} on {}", drafter.card().name, bound.url()));
    let served = serve(drafter, bound, shutdown).await;
    // Of a service that has failed, too: its last spans say the most.
    telemetry.end().await;
    Ok(served?)
}
