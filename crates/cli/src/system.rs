//! The system that a command starts in this process.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use espalier_client::Client;
use espalier_drafter::Config as DrafterConfig;
use espalier_local::{ANY_PORT, Plan, Role, System, processors};
use espalier_verifier::Config as VerifierConfig;

use crate::args::{Decoding, Serve, SystemArgs};
use crate::error::CliError;
use crate::models::{DEFAULT_DRAFTER, DrafterChoice, checkpoint};
use crate::report;

/// Threads that each model computes with.
pub(crate) fn threads(system: &SystemArgs) -> usize {
    system.threads.map_or_else(processors, usize::from)
}

/// A system on free loopback ports.
pub(crate) fn plan(targets: &[&str], drafters: &[DrafterChoice], system: &SystemArgs) -> Result<Plan, CliError> {
    let target = |name: &&str| Ok((VerifierConfig::new(checkpoint(name, system)?, threads(system))?, ANY_PORT));
    let verifiers = targets.iter().map(target).collect::<Result<_, CliError>>()?;
    let drafters = drafters.iter().filter_map(|choice| drafter_config(choice, system)).collect();
    Ok(Plan { verifiers, drafters, gateway: ANY_PORT })
}

/// The service that a choice needs, if any.
fn drafter_config(choice: &DrafterChoice, system: &SystemArgs) -> Option<DrafterConfig> {
    let DrafterChoice::Model { folder, layers } = choice else {
        return None;
    };
    Some(DrafterConfig {
        model: folder.clone(),
        layers: *layers,
        name: choice.name(),
        listen: ANY_PORT,
        threads: NonZeroUsize::new(threads(system)).unwrap_or(NonZeroUsize::MIN),
        sequences_max: DrafterConfig::SEQUENCES_MAX,
    })
}

/// The system that `espalier serve` was asked for.
pub(crate) fn plan_to_serve(args: &Serve, system: &SystemArgs) -> Result<Plan, CliError> {
    let targets: Vec<&str> = args.targets.iter().map(String::as_str).collect();
    let mut plan = plan(&targets, &[DrafterChoice::parse(&args.drafter, system)?], system)?;
    let at = |port| SocketAddr::new(args.host, port);
    for (i, (_, listen)) in plan.verifiers.iter_mut().enumerate() {
        let following = args.verifier_port.saturating_add(u16::try_from(i).unwrap_or(u16::MAX));
        *listen = at(if args.verifier_port == 0 { 0 } else { following });
    }
    for drafter in &mut plan.drafters {
        drafter.listen = at(args.drafter_port);
    }
    plan.gateway = at(args.port);
    Ok(plan)
}

/// Starts a system and shows how loading goes.
pub(crate) async fn start(plan: Plan) -> Result<System, CliError> {
    let bars = report::Loading::default();
    let hears = bars.clone();
    let started = System::start(plan, move |model, done, all| hears.step(model, done, all)).await;
    bars.clear();
    Ok(started?)
}

/// A system for one target's answers, and how requests name what they use of it.
pub(crate) struct Local {
    system: System,
    pub(crate) target: String,
    /// None where nobody drafts.
    pub(crate) drafter: Option<String>,
}

impl Local {
    /// Starts what the answers of `target` need.
    pub(crate) async fn start(target: &str, decoding: &Decoding, system: &SystemArgs) -> Result<Self, CliError> {
        let choice = match (&decoding.drafter, decoding.no_speculation) {
            (_, true) => DrafterChoice::None,
            (drafter, false) => DrafterChoice::parse(drafter.as_deref().unwrap_or(DEFAULT_DRAFTER), system)?,
        };
        let drafter = (choice != DrafterChoice::None).then(|| choice.name());
        let plan = plan(&[target], &[choice], system)?;
        let target = plan.verifiers.first().map_or_else(String::new, |(config, _)| config.name().to_owned());
        Ok(Self { system: start(plan).await?, target, drafter })
    }

    pub(crate) fn client(&self) -> Result<Client, CliError> {
        Ok(Client::new(self.system.gateway())?)
    }

    pub(crate) async fn stop(self) -> Result<(), CliError> {
        Ok(self.system.stop().await?)
    }
}

/// The addresses of a system, a line each.
pub(crate) fn addresses(system: &System) -> String {
    let line = |role: Role, name: &str, url: &str| format!("{:8} {name:12} {url}", role.name());
    let lines = system.addresses().iter().map(|address| line(address.role, &address.name, &address.url));
    lines.collect::<Vec<_>>().join("\n")
}
