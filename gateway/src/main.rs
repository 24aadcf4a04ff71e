//! `espalier-gateway`: the gateway as a process of its own.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use espalier_gateway::{Args, Config, Gateway, Profiles, Renderer, render_chat_templates, serve};
use espalier_service_kit::{Program, Role, Telemetry, bind, failed, probe, ready, signal};

/// What this is.
const PROGRAM: Program = Program { name: "espalier-gateway", version: env!("CARGO_PKG_VERSION") };

fn main() -> ExitCode {
    render_chat_templates().or_else(probe).unwrap_or_else(gateway)
}

#[tokio::main]
async fn gateway() -> ExitCode {
    let args = Args::parse();
    let config = match Config::from_args(&args, Profiles::read) {
        Ok(config) => config.with_renderer(Renderer::this_program()),
        Err(faults) => return faults.report("espalier-gateway"),
    };
    match run(&args, config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed("espalier-gateway", error.as_ref()),
    }
}

async fn run(args: &Args, config: Config) -> Result<(), Box<dyn Error>> {
    let telemetry = Telemetry::install(PROGRAM, &args.telemetry)?;
    args.monitor.open(telemetry.monitor()).await?;
    let watched = telemetry.monitor().service(Role::Gateway.name());
    let stop = signal()?;
    let bound =
        bind(args.listen).await?.watched_as(watched).with_drain(args.drain.drain()).with_tls(args.locks.door()?);
    let gateway = Gateway::start(config).await;
    ready(format_args!("gateway for {} targets on {}", gateway.targets().len(), bound.url()));
    let served = serve(gateway, bound, stop).await;
    // Of a service that has failed, too: its last spans say the most.
    telemetry.end().await;
    Ok(served?)
}
