//! `espalier-drafter`: the drafter as a process of its own.

use std::process::ExitCode;

use clap::Parser;
use espalier_drafter::{Args, Config, Drafter, serve};
use espalier_model::Team;
use espalier_service_kit::{Telemetry, bind, signal};

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("espalier-drafter: {}", espalier_service_kit::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let _telemetry = Telemetry::install("espalier-drafter", &args.telemetry)?;
    let shutdown = signal()?;
    let config = Config::from(args);
    let bound = bind(config.listen).await?;
    let load = move || Drafter::load(&config, &Team::new(config.threads.get()));
    let drafter = tokio::task::spawn_blocking(load).await??;
    println!("drafter {} on {}", drafter.card().name, bound.url());
    serve(drafter, bound, shutdown).await?;
    Ok(())
}
