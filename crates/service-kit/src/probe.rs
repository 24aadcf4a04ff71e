//! `PROGRAM probe`: asks the service that runs beside it, for supervisors that can only run programs. It asks the port for
//! scrapers and probes, which is in the clear, so it needs no certificate.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tokio::runtime;
use tokio::time::timeout;

use crate::monitor_port::ask;

/// The word that makes a program a probe.
const PROBE: &str = "probe";

/// Asks the service that runs beside this program how it stands. The exit code is 0 if it is so, and 1 if not.
#[derive(Debug, Parser)]
struct ProbeArgs {
    /// What is asked
    #[arg(value_enum, default_value_t)]
    question: ProbeQuestion,
    /// Where the service answers scrapers and probes
    #[arg(long, env = "ESPALIER_METRICS_LISTEN", value_name = "HOST:PORT")]
    metrics_listen: SocketAddr,
    /// Seconds that it may take to answer
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
}

/// What a probe asks.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum ProbeQuestion {
    /// Whether it has loaded all that it needs
    Startup,
    /// Whether it takes calls
    #[default]
    Ready,
    /// Whether it is at work at all
    Live,
}

impl ProbeQuestion {
    fn path(self) -> &'static str {
        match self {
            Self::Startup => "/startupz",
            Self::Ready => "/readyz",
            Self::Live => "/livez",
        }
    }
}

/// What the program ends with if its first argument says that it is a probe, after it was one.
pub fn probe() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let program = args.next()?;
    if args.next()? != PROBE {
        return None;
    }
    let name = format!("{} {PROBE}", program.to_string_lossy());
    let args = ProbeArgs::parse_from(std::iter::once(name.into()).chain(args));
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let answer = runtime.and_then(|runtime| runtime.block_on(run(&args)));
    let (yes, why) = answer.unwrap_or_else(|error| (false, error.to_string()));
    // Who has gone does not want to know.
    let _ = writeln!(io::stdout(), "{why}");
    Some(if yes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(args: &ProbeArgs) -> io::Result<(bool, String)> {
    let (address, limit) = (reachable(args.metrics_listen), Duration::from_secs(args.timeout));
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("{address} has not answered within {limit:?}"));
    timeout(limit, ask(address, args.question.path())).await.unwrap_or_else(|_| Err(late()))
}

/// An address at which something that listens on `address` can be reached from its own machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn what_listens_everywhere_is_asked_here() {
        let reached = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(reached("0.0.0.0:9464"), "127.0.0.1:9464");
        assert_eq!(reached("[::]:9464"), "[::1]:9464");
        assert_eq!(reached("10.0.0.7:9464"), "10.0.0.7:9464");
    }

    #[test]
    fn its_arguments_are_consistent() {
        ProbeArgs::command().debug_assert();
    }
}
