//! What a system is to be made of.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use espalier_drafter::Config as DrafterConfig;
use espalier_gateway::{Config as GatewayConfig, Profiles, Renderer};
use espalier_model::Team;
use espalier_service_kit::Monitor;
use espalier_verifier::Config as VerifierConfig;

use crate::args::SystemArgs;
use crate::error::LocalError;
use crate::models::{DrafterChoice, checkpoint, shared_target};
use crate::{predictors, profiles};

/// A free port on loopback.
pub const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Sequences that each model of a system serves at once.
pub const SEQUENCES_MAX: usize = VerifierConfig::SEQUENCES_MAX;

/// What a system is to be made of.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A verifier for each target, and where it listens. All models share one team of threads: the largest that any of
    /// them is to have.
    pub verifiers: Vec<(VerifierConfig, SocketAddr)>,
    /// The drafters, each of a name of its own; they listen where their configurations say.
    pub drafters: Vec<DrafterConfig>,
    /// Where the gateway listens.
    pub gateway: SocketAddr,
    /// Thresholds of exits that the gateway has drafters use.
    pub profiles: Profiles,
    /// Requests that the gateway serves at once.
    pub requests_max: usize,
    /// Requests that wait at the gateway.
    pub queued_max: usize,
    /// Whether the gateway has a page at `/`.
    pub playground: bool,
    /// How the gateway renders chat templates.
    pub renderer: Renderer,
    /// Who is told how far its services are and what they measure, if anybody is.
    pub monitor: Option<Monitor>,
}

impl Plan {
    /// A system on free loopback ports: a verifier for each of `targets`, and the services that `drafters` need.
    ///
    /// # Errors
    /// Names that stand for nothing, and files that cannot be read.
    pub fn new(targets: &[&str], drafters: &[DrafterChoice], system: &SystemArgs) -> Result<Self, LocalError> {
        let folders = targets.iter().map(|name| checkpoint(name, system)).collect::<Result<Vec<_>, _>>()?;
        let profiles = profiles::of(&folders, drafters, system)?;
        let config = |choice| drafter_config(choice, &folders, system).transpose();
        let mut drafters = drafters.iter().filter_map(config).collect::<Result<Vec<_>, LocalError>>()?;
        predictors::give(&mut drafters, system)?;
        let verifier = |folder| {
            let config = VerifierConfig::new(folder, system.threads())?;
            let config = config.with_kv_memory(system.kv_memory).with_compute(system.target_compute()?);
            Ok((config.with_device(system.device, system.parallel()), ANY_PORT))
        };
        let verifiers = folders.into_iter().map(verifier).collect::<Result<_, LocalError>>()?;
        // Whatever targets are asked for: who waits, waits at the gateway, and no verifier has to refuse.
        let (requests_max, queued_max) = (SEQUENCES_MAX, GatewayConfig::QUEUED_MAX);
        Ok(Self {
            verifiers,
            drafters,
            gateway: ANY_PORT,
            profiles,
            requests_max,
            queued_max,
            playground: true,
            renderer: system.renderer.clone(),
            monitor: None,
        })
    }

    /// How requests name the targets, in the order in which they were given.
    pub fn targets(&self) -> Vec<String> {
        self.verifiers.iter().map(|(config, _)| config.name().to_owned()).collect()
    }

    /// The threads that its models share.
    pub(crate) fn team(&self) -> Team {
        let of_targets = self.verifiers.iter().map(|(config, _)| config.threads());
        let of_drafters = self.drafters.iter().map(|config| config.threads.get());
        Team::new(of_targets.chain(of_drafters).max().unwrap_or(1))
    }
}

/// The service that a choice needs, if any; `targets` are the folders of those it may be of use to.
fn drafter_config(
    choice: &DrafterChoice,
    targets: &[PathBuf],
    system: &SystemArgs,
) -> Result<Option<DrafterConfig>, LocalError> {
    let DrafterChoice::Model { folder, layers } = choice else {
        return Ok(None);
    };
    let threads = NonZeroUsize::new(system.threads()).unwrap_or(NonZeroUsize::MIN);
    let config = DrafterConfig::new(folder.clone(), *layers, threads);
    let target_model = shared_target(folder, targets, system)?;
    let compute = system.draft_compute();
    let device = system.draft_device();
    Ok(Some(DrafterConfig { target_model, kv_memory: system.kv_memory, compute, device, ..config }))
}
