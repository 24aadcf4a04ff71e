//! `espalier serve`: a whole system, until it is told to stop.

use std::net::{IpAddr, SocketAddr};

use espalier_command::{Verdict, start};
use espalier_local::{DEFAULT_DRAFTER, DEFAULT_TARGETS, DrafterChoice, LocalError, Plan, Role, System, SystemArgs};
use espalier_service_kit::{Monitor, MonitorArgs, signal};

use crate::error::CliError;

/// The options of `espalier serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) layout: Layout,
    /// No page at the gateway's address.
    #[arg(long)]
    pub(crate) no_playground: bool,
    #[command(flatten)]
    pub(crate) monitor: MonitorArgs,
}

/// What a system that serves is made of, and where it listens.
#[derive(Debug, clap::Args)]
pub(crate) struct Layout {
    /// Targets to host, by name in the folder of models or by path.
    #[arg(long, value_delimiter = ',', default_values = DEFAULT_TARGETS, value_name = "T[,T…]")]
    pub(crate) targets: Vec<String>,
    /// Who drafts: drafters by name in the folder of models or by path, or `NAME:LAYERS` for first layers, or `none`.
    #[arg(long, value_delimiter = ',', default_value = DEFAULT_DRAFTER, value_name = "D[,D…]")]
    pub(crate) drafter: Vec<String>,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub(crate) host: IpAddr,
    /// The gateway's port; 0 takes a free one.
    #[arg(long, default_value_t = 50051)]
    pub(crate) port: u16,
    /// The first verifier's port, the others following; 0 takes free ones.
    #[arg(long, default_value_t = 50071)]
    pub(crate) verifier_port: u16,
    /// The first drafter's port, the others following; 0 takes free ones.
    #[arg(long, default_value_t = 50061)]
    pub(crate) drafter_port: u16,
}

pub(crate) async fn run(system: &SystemArgs, args: &Serve, monitor: &Monitor) -> Result<Verdict, CliError> {
    let stop = signal()?;
    tokio::pin!(stop);
    let metrics = args.monitor.open(monitor).await.map_err(LocalError::from)?;
    let (monitor, playground) = (Some(monitor.clone()), !args.no_playground);
    let plan = Plan { monitor, playground, ..args.layout.plan(system)? };
    let running = tokio::select! {
        () = &mut stop => return Ok(Verdict::Good),
        running = start(plan) => running?,
    };
    if let Some(address) = metrics {
        anstream::println!("{:8} {:12} http://{address}", "metrics", "");
    }
    anstream::println!("{}", addresses(&running));
    anstream::println!("{:8} {:12} {}/v1", "openai", "", running.gateway());
    if !args.no_playground {
        anstream::println!("{:8} {:12} {}/", "page", "", running.gateway());
    }
    anstream::println!("ready");
    running.run_until(stop).await?;
    Ok(Verdict::Good)
}

impl Layout {
    /// The system that this stands for.
    ///
    /// # Errors
    /// Names that stand for nothing, and files that cannot be read.
    pub(crate) fn plan(&self, system: &SystemArgs) -> Result<Plan, LocalError> {
        let targets: Vec<&str> = self.targets.iter().map(String::as_str).collect();
        let mut plan = Plan::new(&targets, &DrafterChoice::parse_all(&self.drafter, system)?, system)?;
        let verifiers = plan.verifiers.iter_mut().map(|(_, listen)| listen);
        verifiers.zip(self.addresses_from(self.verifier_port)).for_each(|(listen, address)| *listen = address);
        let drafters = plan.drafters.iter_mut().map(|drafter| &mut drafter.listen);
        drafters.zip(self.addresses_from(self.drafter_port)).for_each(|(listen, address)| *listen = address);
        plan.gateway = SocketAddr::new(self.host, self.port);
        Ok(plan)
    }

    /// An address with this port, and those that follow.
    pub(crate) fn addresses_from(&self, port: u16) -> impl Iterator<Item = SocketAddr> {
        ports_from(port).map(|port| SocketAddr::new(self.host, port))
    }
}

/// A port and those that follow; free ones for 0.
fn ports_from(first: u16) -> impl Iterator<Item = u16> {
    (0..).map(move |i| if first == 0 { 0 } else { first.saturating_add(i) })
}

/// The addresses of a system, a line each.
fn addresses(system: &System) -> String {
    let line = |role: Role, name: &str, url: &str| format!("{:8} {name:12} {url}", role.name());
    let lines = system.addresses().iter().map(|address| line(address.role, &address.name, &address.url));
    lines.collect::<Vec<_>>().join("\n")
}
