//! `espalier-verifier`: hosts one target model.

use std::error::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::Parser;
use espalier_model::Team;
use espalier_service_kit::{Role, Telemetry, bind, failed, ready, signal};
use espalier_verifier::{Args, Config, Target, serve};

#[tokio::main]
async fn main() -> ExitCode {
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
    let _telemetry = Telemetry::install("espalier-verifier", &args.telemetry)?;
    let stop = signal()?;
    let tls = args.tls.server(Role::Verifier, &[Role::Gateway, Role::Drafter])?;
    let bound = bind(args.listen).await?.with_drain(args.drain.drain()).with_tls(tls);
    let target =
        tokio::task::spawn_blocking(move || Target::load(&config, &Team::new(config.threads()), |_, _| {})).await??;
    ready(format_args!("verifier of {} on {}", target.card().name, bound.url()));
    serve(target, bound, stop).await?;
    Ok(())
}
