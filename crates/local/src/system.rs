//! The services of a system, from their start to their end.

use std::future::Future;
use std::pin::Pin;

use espalier_drafter::Drafter;
use espalier_gateway::{Config as GatewayConfig, Gateway, Occupancy, Profiles, Renderer};
use espalier_model::{BlockPool, Team};
use espalier_service_kit::{Bound, Monitor, Role, bind};
use espalier_verifier::Target;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};

use crate::error::LocalError;
use crate::plan::{ANY_PORT, Plan};

/// Where a service of a system is.
#[derive(Debug, Clone)]
pub struct Address {
    /// What it does.
    pub role: Role,
    /// The name of its model; the gateway's is `gateway`.
    pub name: String,
    /// `http://host:port`.
    pub url: String,
}

/// Hears how loading goes: `(model, layers packed, layers in all)`.
pub trait Progress: Fn(&str, usize, usize) + Clone + Send + 'static {}

impl<F: Fn(&str, usize, usize) + Clone + Send + 'static> Progress for F {}

/// A running system. Dropping it ends all services at once; [`System::stop`] lets them drain.
#[derive(Debug)]
pub struct System {
    addresses: Vec<Address>,
    services: JoinSet<Result<(), LocalError>>,
    phase: watch::Sender<Phase>,
    gateway: Option<Gateway>,
    memory: Vec<(String, BlockPool)>,
    renderer: Renderer,
}

/// How far a system's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// The gateway drains, and has the services behind it until it is done.
    Closing,
    /// All other services drain.
    Ending,
}

impl Phase {
    /// That in which a service ends.
    fn of_end(role: Role) -> Self {
        if role == Role::Gateway { Self::Closing } else { Self::Ending }
    }
}

/// A service's configuration, the address that it will listen on, and the threads that its model shares.
struct Hosted<C> {
    config: C,
    bound: Bound,
    team: Team,
}

/// What a gateway is to be like, whomever it knows.
struct GatewayOptions {
    profiles: Profiles,
    requests_max: usize,
    queued_max: usize,
    playground: bool,
}

impl GatewayOptions {
    /// The limits of a gateway of its own process.
    fn usual(profiles: Profiles) -> Self {
        let (requests_max, queued_max) = (GatewayConfig::REQUESTS_MAX, GatewayConfig::QUEUED_MAX);
        Self { profiles, requests_max, queued_max, playground: false }
    }
}

/// Ready when a service shall end.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

impl System {
    /// Loads the models and starts the services; returns when the gateway knows them all.
    ///
    /// # Errors
    /// [`LocalError`] for an address that cannot be had (before anything is loaded) or a model that cannot be loaded.
    pub async fn start(plan: Plan, progress: impl Progress) -> Result<Self, LocalError> {
        let (mut system, team) = (Self::empty(plan.renderer.clone()), plan.team());
        // Addresses come first: one that cannot be had is told of before anything is loaded.
        let watched = |bound, role, name: &str| watched(bound, plan.monitor.as_ref(), role, name);
        let gateway = watched(bind(plan.gateway).await?, Role::Gateway, "");
        let (mut verifiers, mut drafters) = (Vec::new(), Vec::new());
        for (config, listen) in plan.verifiers {
            let bound = watched(bind(listen).await?, Role::Verifier, config.name());
            verifiers.push(Hosted { config, bound, team: team.clone() });
        }
        for config in plan.drafters {
            let bound = watched(bind(config.listen).await?, Role::Drafter, &config.name);
            drafters.push(Hosted { config, bound, team: team.clone() });
        }
        for hosted in verifiers {
            system.add_verifier(hosted, progress.clone()).await?;
        }
        for hosted in drafters {
            system.add_drafter(hosted, progress.clone()).await?;
        }
        let Plan { profiles, requests_max, queued_max, playground, .. } = plan;
        system.add_gateway(gateway, GatewayOptions { profiles, requests_max, queued_max, playground }).await?;
        Ok(system)
    }

    /// No service yet.
    fn empty(renderer: Renderer) -> Self {
        Self {
            addresses: Vec::new(),
            services: JoinSet::new(),
            phase: watch::Sender::new(Phase::Serving),
            gateway: None,
            memory: Vec::new(),
            renderer,
        }
    }

    async fn add_verifier(
        &mut self,
        hosted: Hosted<espalier_verifier::Config>,
        progress: impl Progress,
    ) -> Result<(), LocalError> {
        let Hosted { config, bound, team } = hosted;
        let name = config.name().to_owned();
        let load = move || Target::load(&config, &team, |done, all| progress(config.name(), done, all));
        let target = spawn_blocking(load)
            .await?
            .map_err(|source| LocalError::Target { name: name.clone(), source: Box::new(source) })?;
        self.memory.push((name.clone(), target.blocks().clone()));
        self.add(Role::Verifier, name, bound, |bound, stop| espalier_verifier::serve(target, bound, stop));
        Ok(())
    }

    async fn add_drafter(
        &mut self,
        hosted: Hosted<espalier_drafter::Config>,
        progress: impl Progress,
    ) -> Result<(), LocalError> {
        let Hosted { config, bound, team } = hosted;
        let name = config.name.clone();
        let load = move || Drafter::load_with_progress(&config, &team, |done, all| progress(&config.name, done, all));
        let drafter = spawn_blocking(load).await??;
        self.memory.push((name.clone(), drafter.blocks().clone()));
        self.add(Role::Drafter, name, bound, |bound, stop| espalier_drafter::serve(drafter, bound, stop));
        Ok(())
    }

    async fn add_gateway(&mut self, bound: Bound, options: GatewayOptions) -> Result<(), LocalError> {
        let gateway = self.make_gateway(options).await?;
        self.gateway = Some(gateway.clone());
        self.add(Role::Gateway, "gateway".to_owned(), bound, |bound, stop| {
            espalier_gateway::serve(gateway, bound, stop)
        });
        Ok(())
    }

    async fn make_gateway(&self, options: GatewayOptions) -> Result<Gateway, LocalError> {
        let config = GatewayConfig::new(&self.urls(Role::Verifier), &self.urls(Role::Drafter))?;
        let config = config.with_profiles(options.profiles).with_limits(options.requests_max, options.queued_max)?;
        let config = config.with_playground(options.playground);
        Ok(Gateway::start(config.with_renderer(self.renderer.clone())).await)
    }

    /// Starts one more gateway, with profiles of its own, to the same verifiers and drafters.
    ///
    /// # Errors
    /// No free port, or more services than a gateway may be given.
    pub async fn side_gateway(&self, profiles: Profiles) -> Result<SideGateway, LocalError> {
        let bound = bind(ANY_PORT).await?;
        let (url, gateway) = (bound.url(), self.make_gateway(GatewayOptions::usual(profiles)).await?);
        let serving = tokio::spawn(espalier_gateway::serve(gateway, bound, std::future::pending()));
        Ok(SideGateway { url, serving: serving.abort_handle() })
    }

    /// Serves in the background until the system is stopped.
    fn add<S, E>(&mut self, role: Role, name: String, bound: Bound, serve: impl FnOnce(Bound, Stop) -> S)
    where
        S: Future<Output = Result<(), E>> + Send + 'static,
        LocalError: From<E>,
    {
        self.addresses.push(Address { role, name, url: bound.url() });
        let (phase, mut phases) = (self.phase.clone(), self.phase.subscribe());
        let service = serve(
            bound,
            Box::pin(async move {
                // A system that was dropped is stopped too.
                let _ = phases.wait_for(|phase| *phase >= Phase::of_end(role)).await;
            }),
        );
        self.services.spawn(async move {
            let ended = service.await;
            if role == Role::Gateway {
                phase.send_replace(Phase::Ending);
            }
            Ok(ended?)
        });
    }

    fn urls(&self, role: Role) -> Vec<String> {
        let of_role = self.addresses.iter().filter(|address| address.role == role);
        of_role.map(|address| address.url.clone()).collect()
    }

    /// Every service, in the order in which they were started; the gateway is the last.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The gateway's URL.
    pub fn gateway(&self) -> &str {
        self.addresses.last().map_or("", |address| &address.url)
    }

    /// The requests that the gateway serves at present, and those that wait.
    pub fn occupancy(&self) -> Occupancy {
        self.gateway.as_ref().map(Gateway::occupancy).unwrap_or_default()
    }

    /// The memory for keys and values of each model, by the name of its service.
    pub fn memory(&self) -> &[(String, BlockPool)] {
        &self.memory
    }

    /// Asks the gateway to end, then all others, and waits until they have drained.
    ///
    /// # Errors
    /// What the first service that failed ended with.
    pub async fn stop(mut self) -> Result<(), LocalError> {
        self.phase.send_replace(Phase::Closing);
        while let Some(service) = self.services.join_next().await {
            service??;
        }
        Ok(())
    }

    /// Serves until `stop` is ready, then drains; or until a service fails.
    ///
    /// # Errors
    /// As for [`System::stop`].
    pub async fn run_until(mut self, stop: impl Future<Output = ()>) -> Result<(), LocalError> {
        tokio::select! {
            () = stop => self.stop().await,
            Some(service) = self.services.join_next() => service?,
        }
    }
}

/// An address as that of a service that is watched, if anybody watches.
fn watched(bound: Bound, monitor: Option<&Monitor>, role: Role, name: &str) -> Bound {
    let Some(monitor) = monitor else { return bound };
    let role = role.name();
    bound.watched_as(monitor.service(if name.is_empty() { role.to_owned() } else { format!("{role} {name}") }))
}

/// A gateway beside that of a system. Dropping it ends it at once.
#[derive(Debug)]
pub struct SideGateway {
    url: String,
    serving: AbortHandle,
}

impl SideGateway {
    /// `http://host:port`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for SideGateway {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
