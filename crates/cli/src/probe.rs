//! `espalier probe`: whether a running service takes calls.

use std::time::Duration;

use espalier_command::Verdict;
use espalier_service_kit::{CallerTlsArgs, Deadline, is_serving, outgoing};

use tokio::time::timeout;
use tonic::Status;

use crate::error::CliError;

/// The options of `espalier probe`.
#[derive(Debug, clap::Args)]
pub(crate) struct Probe {
    /// Where the service is.
    #[arg(default_value = "http://127.0.0.1:50051", value_name = "URL")]
    url: String,
    /// Seconds that it may take to answer.
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
    #[command(flatten)]
    tls: CallerTlsArgs,
}

pub(crate) async fn run(args: &Probe) -> Result<Verdict, CliError> {
    let channel = args.tls.dialer(&args.url)?.channel(&args.url)?;
    let limit = Duration::from_secs(args.timeout);
    let late = || Status::deadline_exceeded(format!("no answer came within {limit:?}"));
    let asked = timeout(limit, is_serving(channel, outgoing(Some(Deadline::after(limit)))));
    let answer = asked.await.unwrap_or_else(|_| Err(late()));
    let serves =
        answer.map_err(|status| CliError::Silent { url: args.url.clone(), why: status.message().to_owned() })?;
    let says = if serves { "takes calls" } else { "takes no further calls" };
    anstream::println!("{} {says}", args.url);
    Ok(if serves { Verdict::Good } else { Verdict::Bad })
}
