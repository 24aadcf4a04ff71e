//! A whole system in one process: verifiers, drafters and the gateway on their own ports, over real gRPC.
//!
//! What the command line starts and the end-to-end tests test. The services are the very ones of the separate
//! programs; only the process is shared, and the threads that models compute with.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::thread::available_parallelism;

use espalier_drafter::{Drafter, DrafterError};
use espalier_gateway::Gateway;
pub use espalier_gateway::{Config as GatewayConfig, Occupancy, Profiles, ProfilesError};
use espalier_model::{BlockPool, Team};
use espalier_service_kit::{Bound, ServeError, bind};
use espalier_verifier::{LoadError, Target};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet, spawn_blocking};

/// A free port on loopback.
pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What a system is to be made of.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A verifier for each target, and where it listens. All models share one team of threads: the largest that any of
    /// them is to have.
    pub verifiers: Vec<(espalier_verifier::Config, SocketAddr)>,
    /// The drafters, each of a name of its own; they listen where their configurations say.
    pub drafters: Vec<espalier_drafter::Config>,
    /// Where the gateway listens.
    pub gateway: SocketAddr,
    /// Thresholds of exits that the gateway has drafters use.
    pub profiles: Profiles,
    /// Requests that the gateway serves at once.
    pub requests_max: usize,
    /// Requests that wait at the gateway.
    pub queued_max: usize,
}

impl Plan {
    /// The threads that its models share.
    fn team(&self) -> Team {
        let of_targets = self.verifiers.iter().map(|(config, _)| config.threads());
        let of_drafters = self.drafters.iter().map(|config| config.threads.get());
        Team::new(of_targets.chain(of_drafters).max().unwrap_or(1))
    }
}

/// Why a system did not start, or what it ended with.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// An address cannot be had, or a server failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A target cannot be loaded.
    #[error("the target {name} cannot be loaded")]
    Target {
        /// The target's name.
        name: String,
        /// Why.
        source: Box<LoadError>,
    },
    /// The drafter cannot be loaded, or failed.
    #[error(transparent)]
    Drafter(#[from] DrafterError),
    /// A verifier failed.
    #[error(transparent)]
    Verifier(#[from] espalier_verifier::ServiceError),
    /// The gateway's configuration is wrong.
    #[error(transparent)]
    Config(#[from] espalier_gateway::ConfigError),
    /// A service broke.
    #[error("a service of this process broke")]
    Task(#[from] JoinError),
}

/// What a service of a system does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Hosts a target.
    Verifier,
    /// Proposes trees.
    Drafter,
    /// The door.
    Gateway,
}

impl Role {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verifier => "verifier",
            Self::Drafter => "drafter",
            Self::Gateway => "gateway",
        }
    }
}

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
    stop: watch::Sender<bool>,
    gateway: Option<Gateway>,
    memory: Vec<(String, BlockPool)>,
}

/// Requests that a gateway serves at once, and those that wait.
type Limits = (usize, usize);

/// Ready when a service shall end.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

impl System {
    /// Loads the models and starts the services; returns when the gateway knows them all.
    ///
    /// # Errors
    /// [`LocalError`] for an address that cannot be had (before anything is loaded) or a model that cannot be loaded.
    pub async fn start(plan: Plan, progress: impl Progress) -> Result<Self, LocalError> {
        let mut system = Self {
            addresses: Vec::new(),
            services: JoinSet::new(),
            stop: watch::Sender::new(false),
            gateway: None,
            memory: Vec::new(),
        };
        let (gateway, team) = (bind(plan.gateway).await?, plan.team());
        let limits = (plan.requests_max, plan.queued_max);
        let mut verifiers = Vec::new();
        for (config, listen) in plan.verifiers {
            verifiers.push((config, bind(listen).await?));
        }
        let mut drafters = Vec::new();
        for config in plan.drafters {
            drafters.push((bind(config.listen).await?, config));
        }
        for (config, bound) in verifiers {
            system.add_verifier((config, team.clone()), bound, progress.clone()).await?;
        }
        for (bound, config) in drafters {
            system.add_drafter((config, team.clone()), bound, progress.clone()).await?;
        }
        system.add_gateway(gateway, plan.profiles, limits).await?;
        Ok(system)
    }

    async fn add_verifier(
        &mut self,
        (config, team): (espalier_verifier::Config, Team),
        bound: Bound,
        progress: impl Progress,
    ) -> Result<(), LocalError> {
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
        (config, team): (espalier_drafter::Config, Team),
        bound: Bound,
        progress: impl Progress,
    ) -> Result<(), LocalError> {
        let name = config.name.clone();
        let load = move || Drafter::load_with_progress(&config, &team, |done, all| progress(&config.name, done, all));
        let drafter = spawn_blocking(load).await??;
        self.memory.push((name.clone(), drafter.blocks().clone()));
        self.add(Role::Drafter, name, bound, |bound, stop| espalier_drafter::serve(drafter, bound, stop));
        Ok(())
    }

    async fn add_gateway(&mut self, bound: Bound, profiles: Profiles, limits: Limits) -> Result<(), LocalError> {
        let gateway = self.make_gateway(profiles, limits).await?;
        self.gateway = Some(gateway.clone());
        self.add(Role::Gateway, "gateway".to_owned(), bound, |bound, stop| {
            espalier_gateway::serve(gateway, bound, stop)
        });
        Ok(())
    }

    async fn make_gateway(
        &self,
        profiles: Profiles,
        (requests_max, queued_max): Limits,
    ) -> Result<Gateway, LocalError> {
        let config = GatewayConfig::new(&self.urls(Role::Verifier), &self.urls(Role::Drafter))?;
        Ok(Gateway::start(config.with_profiles(profiles).with_limits(requests_max, queued_max)?).await)
    }

    /// Starts one more gateway, with profiles of its own, to the same verifiers and drafters.
    ///
    /// # Errors
    /// No free port, or more services than a gateway may be given.
    pub async fn side_gateway(&self, profiles: Profiles) -> Result<SideGateway, LocalError> {
        let bound = bind(ANY_PORT).await?;
        let usual = (GatewayConfig::REQUESTS_MAX, GatewayConfig::QUEUED_MAX);
        let (url, gateway) = (bound.url(), self.make_gateway(profiles, usual).await?);
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
        let mut stopped = self.stop.subscribe();
        let service = serve(
            bound,
            Box::pin(async move {
                // A system that was dropped is stopped too.
                let _ = stopped.wait_for(|stopped| *stopped).await;
            }),
        );
        self.services.spawn(async { Ok(service.await?) });
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

    /// Asks all services to end, and waits until they have drained.
    ///
    /// # Errors
    /// What the first service that failed ended with.
    pub async fn stop(mut self) -> Result<(), LocalError> {
        self.stop.send_replace(true);
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

/// All processors.
pub fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}
