//! `espalier-gateway`: the gateway as a process of its own.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use espalier_gateway::{Args, Config, Gateway, serve};
use espalier_service_kit::{Telemetry, bind, chain, signal};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("espalier-gateway: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let config = Config::from_args(&args)?;
    let _telemetry = Telemetry::install("espalier-gateway", &args.telemetry)?;
    let stop = signal()?;
    let bound = bind(args.listen).await?;
    let gateway = Gateway::start(config).await;
    println!("gateway for {} targets on {}", gateway.targets().len(), bound.url());
    serve(gateway, bound, stop).await?;
    Ok(())
}
