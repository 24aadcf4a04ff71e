//! `espalier-gateway`: the gateway as a process of its own.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use espalier_gateway::{Args, Config, Gateway, Profiles, Renderer, render_chat_templates, serve};
use espalier_service_kit::{Telemetry, bind, failed, ready, signal};

fn main() -> ExitCode {
    render_chat_templates().unwrap_or_else(gateway)
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
    let _telemetry = Telemetry::install("espalier-gateway", &args.telemetry)?;
    let stop = signal()?;
    let bound = bind(args.listen).await?.with_drain(args.drain.drain()).with_tls(args.locks.door()?);
    let gateway = Gateway::start(config).await;
    ready(format_args!("gateway for {} targets on {}", gateway.targets().len(), bound.url()));
    serve(gateway, bound, stop).await?;
    Ok(())
}
