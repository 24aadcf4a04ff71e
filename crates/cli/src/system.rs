//! The system that a command starts in this process.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use espalier_client::Client;
use espalier_drafter::Config as DrafterConfig;
use espalier_local::{ANY_PORT, GatewayConfig, Plan, Profiles, Role, System, processors};
use espalier_verifier::Config as VerifierConfig;

use crate::args::{Decoding, Serve, SystemArgs};
use crate::error::CliError;
use crate::models::{DEFAULT_DRAFTER, DrafterChoice, checkpoint, shared_target};
use crate::{predictors, report};

/// Threads that the models compute with, in turns.
pub(crate) fn threads(system: &SystemArgs) -> usize {
    system.threads.map_or_else(processors, usize::from)
}

/// A system on free loopback ports.
pub(crate) fn plan(targets: &[&str], drafters: &[DrafterChoice], system: &SystemArgs) -> Result<Plan, CliError> {
    let folders = targets.iter().map(|name| checkpoint(name, system)).collect::<Result<Vec<_>, _>>()?;
    let drafter = |choice| drafter_config(choice, &folders, system).transpose();
    let mut drafters = drafters.iter().filter_map(drafter).collect::<Result<Vec<_>, CliError>>()?;
    predictors::give(&mut drafters, system)?;
    let target = |folder| {
        let config = VerifierConfig::new(folder, threads(system))?;
        Ok((config.with_kv_memory(system.kv_memory), ANY_PORT))
    };
    let verifiers = folders.into_iter().map(target).collect::<Result<_, CliError>>()?;
    let profiles = system.profiles.as_deref().map(Profiles::read).transpose()?.unwrap_or_default();
    // Whatever targets are asked for: who waits, waits at the gateway, and no verifier has to refuse.
    let (requests_max, queued_max) = (VerifierConfig::SEQUENCES_MAX, GatewayConfig::QUEUED_MAX);
    Ok(Plan { verifiers, drafters, gateway: ANY_PORT, profiles, requests_max, queued_max })
}

/// The service that a choice needs, if any; `targets` are the folders of those it may be of use to.
fn drafter_config(
    choice: &DrafterChoice,
    targets: &[PathBuf],
    system: &SystemArgs,
) -> Result<Option<DrafterConfig>, CliError> {
    let DrafterChoice::Model { folder, layers } = choice else {
        return Ok(None);
    };
    let threads = NonZeroUsize::new(threads(system)).unwrap_or(NonZeroUsize::MIN);
    let config = DrafterConfig::new(folder.clone(), *layers, threads);
    let target_model = shared_target(folder, targets, system)?;
    Ok(Some(DrafterConfig { target_model, kv_memory: system.kv_memory, ..config }))
}

/// The system that `espalier serve` was asked for.
pub(crate) fn plan_to_serve(args: &Serve, system: &SystemArgs) -> Result<Plan, CliError> {
    let targets: Vec<&str> = args.targets.iter().map(String::as_str).collect();
    let mut plan = plan(&targets, &DrafterChoice::parse_all(&args.drafter, system)?, system)?;
    let at = |port| SocketAddr::new(args.host, port);
    let verifiers = plan.verifiers.iter_mut().map(|(_, listen)| listen);
    verifiers.zip(ports_from(args.verifier_port)).for_each(|(listen, port)| *listen = at(port));
    let drafters = plan.drafters.iter_mut().map(|drafter| &mut drafter.listen);
    drafters.zip(ports_from(args.drafter_port)).for_each(|(listen, port)| *listen = at(port));
    plan.gateway = at(args.port);
    Ok(plan)
}

/// A port and those that follow; free ones for 0.
fn ports_from(first: u16) -> impl Iterator<Item = u16> {
    (0..).map(move |i| if first == 0 { 0 } else { first.saturating_add(i) })
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
