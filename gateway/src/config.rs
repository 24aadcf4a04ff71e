//! What a gateway is told when it starts.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use espalier_service_kit::{Dialer, DrainArgs, Faults, MonitorArgs, Role, TelemetryArgs, TlsError};
use espalier_speculation::{Limits as PolicyLimits, PolicyError};
use thiserror::Error;

use crate::address::{AddressError, Location};
use crate::admission::{AdmissionLimits, ClientWeights, REQUESTS_LIMIT, WEIGHT_LIMIT};
use crate::caps::{PolicyCaps, UnknownPolicy};
use crate::keys::{Keys, KeysError};
use crate::locks::LockArgs;
use crate::profiles::{Profiles, ProfilesError};
use crate::renderer::Renderer;
use crate::resolver::Resolver;
use crate::surroundings::Surroundings;
use crate::usual::{DRAWN_POLICY, Usual};

/// The most verifiers, and the most drafters, that a gateway may be given or find.
pub const PEERS_MAX: usize = 256;

/// Requests that may be served at once.
const REQUESTS_RANGE: RangeInclusive<usize> = 1..=REQUESTS_LIMIT;

/// Requests that may wait.
const QUEUED_RANGE: RangeInclusive<usize> = 0..=REQUESTS_LIMIT;

/// Seconds that an answer may stand still.
const UNREAD_RANGE: RangeInclusive<usize> = 1..=3600;

/// The most clients that may be given weights.
const WEIGHTS_MAX: usize = 1024;

/// The only door: validates, tokenizes, routes, grants rounds, streams text.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "espalier-gateway",
    version,
    after_help = "`espalier-gateway probe [startup|ready|live]` asks the service that runs beside it how it stands."
)]
pub struct Args {
    /// A verifier's address; several may be given. `dns+http://name:port` stands for all addresses of a name, at all times.
    /// Under TLS, `https` instead of `http`
    #[arg(
        long = "verifier",
        env = "ESPALIER_GATEWAY_VERIFIERS",
        value_name = "URL",
        value_delimiter = ',',
        required = true
    )]
    pub verifiers: Vec<String>,
    /// A drafter's address; several may be given, in the forms of a verifier's
    #[arg(long = "drafter", env = "ESPALIER_GATEWAY_DRAFTERS", value_name = "URL", value_delimiter = ',')]
    pub drafters: Vec<String>,
    /// Where to listen; port 0 takes any free one
    #[arg(long, env = "ESPALIER_GATEWAY_LISTEN", default_value = "127.0.0.1:50051", value_name = "HOST:PORT")]
    pub listen: SocketAddr,
    /// How trees are grown unless a request says otherwise
    #[arg(long, env = "ESPALIER_GATEWAY_POLICY", default_value = Config::POLICY, value_name = "POLICY")]
    pub policy: String,
    /// The policies that requests may ask for, by name; all when absent
    #[arg(long, env = "ESPALIER_GATEWAY_POLICIES", value_name = "NAME", value_delimiter = ',')]
    pub policies: Vec<String>,
    /// The largest `max_nodes` that a request's policy may have; any when absent
    #[arg(long, env = "ESPALIER_GATEWAY_POLICY_NODES_MAX", value_name = "N")]
    pub policy_nodes_max: Option<NonZeroUsize>,
    /// The largest `max_depth` that a request's policy may have; any when absent
    #[arg(long, env = "ESPALIER_GATEWAY_POLICY_DEPTH_MAX", value_name = "N")]
    pub policy_depth_max: Option<NonZeroUsize>,
    /// Policies, and thresholds of exits as `espalier tune thresholds` writes them, by target and drafter; drafters that
    /// are not named there choose their own thresholds
    #[arg(long, env = "ESPALIER_GATEWAY_PROFILES", value_name = "FILE.json")]
    pub profiles: Option<PathBuf>,
    /// Requests served at once; more wait
    #[arg(long, env = "ESPALIER_GATEWAY_REQUESTS_MAX", default_value_t = Config::REQUESTS_MAX, value_name = "N")]
    pub requests_max: usize,
    /// Requests that wait for a slot, of one client at most as many as it leaves free; more are refused
    #[arg(long, env = "ESPALIER_GATEWAY_QUEUED_MAX", default_value_t = Config::QUEUED_MAX, value_name = "N")]
    pub queued_max: usize,
    /// Requests of one client, served or waiting; more are refused. Any number when absent
    #[arg(long, env = "ESPALIER_GATEWAY_CLIENT_REQUESTS_MAX", value_name = "N")]
    pub client_requests_max: Option<usize>,
    /// Seconds for which nothing of an answer need be read; one that stands still for longer is given up, as it holds places
    /// of all services
    #[arg(long, env = "ESPALIER_GATEWAY_UNREAD_MAX", default_value_t = Config::UNREAD_MAX.as_secs(), value_name = "SECONDS")]
    pub unread_max: u64,
    /// How many slots in a row a client is given while others wait, by the name in its `x-espalier-client`; 1 unless
    /// said here. With `--keys`, keys have weights instead
    #[arg(
        long = "client-weight",
        env = "ESPALIER_GATEWAY_CLIENT_WEIGHTS",
        value_name = "NAME=N",
        value_delimiter = ',',
        conflicts_with = "keys"
    )]
    pub client_weights: Vec<String>,
    /// The API keys that requests must show, and what each may do; read again when it changes. Anybody may ask when absent
    #[arg(long, env = "ESPALIER_GATEWAY_KEYS", value_name = "FILE.json")]
    pub keys: Option<PathBuf>,
    /// No page at `/`: only what programs ask for is answered over HTTP
    #[arg(long, env = "ESPALIER_GATEWAY_NO_PLAYGROUND")]
    pub no_playground: bool,
    /// What is under TLS
    #[command(flatten)]
    pub locks: LockArgs,
    /// How it ends
    #[command(flatten)]
    pub drain: DrainArgs,
    /// Logs and traces
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// The port for scrapers and probes
    #[command(flatten)]
    pub monitor: MonitorArgs,
}

/// All that is wrong with a configuration.
pub type ConfigError = Faults<ConfigFault>;

/// An argument that is wrong.
#[derive(Debug, Error)]
pub enum ConfigFault {
    /// An address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Certificates are of no use.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The default policy is none.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// What requests may ask for is no policy.
    #[error(transparent)]
    Policies(#[from] UnknownPolicy),
    /// The profiles are none.
    #[error(transparent)]
    Profiles(#[from] ProfilesError),
    /// The API keys are none.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The weight of a client is not written as one.
    #[error("`{found}` is not the name of a client and its weight, like `batch=2`")]
    Weight {
        /// What was given.
        found: String,
    },
    /// A number, or a number of addresses, is out of range.
    #[error("{name} is {value}, which is not between {min} and {limit}")]
    Range {
        /// The argument.
        name: &'static str,
        /// Its value.
        value: usize,
        /// The least that is allowed.
        min: usize,
        /// The most that is allowed.
        limit: usize,
    },
}

/// How a gateway is to run; valid by construction.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) verifiers: Vec<Location>,
    pub(crate) drafters: Vec<Location>,
    pub(crate) surroundings: Surroundings,
    pub(crate) usual: Usual,
    pub(crate) limits: AdmissionLimits,
    /// How long an answer may stand still because nobody reads it.
    pub(crate) unread_max: Duration,
    /// The keys that requests must show, if they must.
    pub(crate) keys: Option<Arc<Keys>>,
    /// Whether there is a page at `/`.
    pub(crate) playground: bool,
}

impl Config {
    /// How trees are grown unless told otherwise.
    pub const POLICY: &'static str = "expected-gain";

    /// How trees are grown by rejection where the usual policy chooses among drawn tokens: chains that end where the
    /// draft is in doubt, as a rejected token costs more than a missing one.
    pub const DRAWN_POLICY: &'static str = DRAWN_POLICY;

    /// Requests served at once unless told otherwise.
    pub const REQUESTS_MAX: usize = 256;

    /// Requests that wait unless told otherwise.
    pub const QUEUED_MAX: usize = 256;

    /// How long an answer may stand still unless told otherwise.
    pub const UNREAD_MAX: Duration = Duration::from_secs(30);

    /// What the arguments mean; `read` is how profiles are read ([`Profiles::read`]). Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`ConfigError`] quotes every argument that is wrong.
    pub fn from_args(
        args: &Args,
        read: impl FnOnce(&Path) -> Result<Profiles, ProfilesError>,
    ) -> Result<Self, ConfigError> {
        let mut faults = Faults::none();
        // Without it addresses would be said to be wrong that are not.
        let Some(dialer) = faults.sift(args.locks.dialer()) else { return faults.finish(|| None) };
        let verifiers = verifiers(&args.verifiers, &dialer, &mut faults);
        let drafters = drafters(&args.drafters, &dialer, &mut faults);
        let profiles = faults.sift(args.profiles.as_deref().map(read).transpose()).flatten();
        let usual = faults.sift(Usual::new(&args.policy, profiles.unwrap_or_default()));
        let caps = faults.sift(PolicyCaps::new(&args.policies, policy_limits(args)));
        let running = faults.sift(in_range("requests-max", args.requests_max, REQUESTS_RANGE));
        let queued = faults.sift(in_range("queued-max", args.queued_max, QUEUED_RANGE));
        let each = args.client_requests_max.map(|each| in_range("client-requests-max", each, REQUESTS_RANGE));
        let each = faults.sift(each.transpose());
        let weights = weights(&args.client_weights, &mut faults);
        let unread_max = faults.sift(in_range("unread-max", args.unread_max as usize, UNREAD_RANGE));
        let keys = faults.sift(args.keys.as_deref().map(Keys::read).transpose());
        faults.finish(|| {
            let each = each?.unwrap_or(usize::MAX);
            let limits = AdmissionLimits { running: running?, queued: queued?, each, weights };
            let unread_max = Duration::from_secs(unread_max? as u64);
            Some(Self {
                verifiers,
                drafters,
                surroundings: Surroundings::default(),
                usual: usual?.with_caps(caps?),
                limits,
                unread_max,
                keys: keys?.map(Arc::new),
                playground: !args.no_playground,
            })
        })
    }

    /// The usual configuration for these verifiers and drafters in the clear, each given as
    /// `http://host:port`, or as `dns+http://name:port` for all addresses of a name. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// Addresses that are none, no verifier, or too many.
    pub fn new(verifiers: &[String], drafters: &[String]) -> Result<Self, ConfigError> {
        Self::over(&Dialer::default(), verifiers, drafters)
    }

    /// The same for services that are connected to in another way.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn over(dialer: &Dialer, verifiers: &[String], drafters: &[String]) -> Result<Self, ConfigError> {
        let mut faults = Faults::none();
        let verifiers = self::verifiers(verifiers, dialer, &mut faults);
        let drafters = self::drafters(drafters, dialer, &mut faults);
        let usual = faults.sift(Usual::new(Self::POLICY, Profiles::default()));
        let limits = AdmissionLimits {
            running: Self::REQUESTS_MAX,
            queued: Self::QUEUED_MAX,
            each: usize::MAX,
            weights: ClientWeights::default(),
        };
        faults.finish(|| {
            Some(Self {
                verifiers,
                drafters,
                surroundings: Surroundings::default(),
                usual: usual?,
                limits,
                unread_max: Self::UNREAD_MAX,
                keys: None,
                playground: true,
            })
        })
    }

    /// The same with another way to look names up.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Resolver) -> Self {
        self.surroundings.resolver = resolver;
        self
    }

    /// The same elsewhere than on this machine as it is.
    #[must_use]
    pub fn with_surroundings(self, surroundings: Surroundings) -> Self {
        Self { surroundings, ..self }
    }

    /// The same with so many requests served at once, and so many that wait.
    ///
    /// # Errors
    /// No slot, or more of either than [`REQUESTS_LIMIT`].
    pub fn with_limits(self, requests_max: usize, queued_max: usize) -> Result<Self, ConfigError> {
        let mut faults = Faults::none();
        let running = faults.sift(in_range("requests-max", requests_max, REQUESTS_RANGE));
        let queued = faults.sift(in_range("queued-max", queued_max, QUEUED_RANGE));
        faults.finish(|| {
            let limits = AdmissionLimits { running: running?, queued: queued?, ..self.limits };
            Some(Self { limits, ..self })
        })
    }

    /// The same with answers given up that stand still for so long.
    #[must_use]
    pub fn with_unread_max(self, unread_max: Duration) -> Self {
        Self { unread_max, ..self }
    }

    /// The same with or without a page at `/`.
    #[must_use]
    pub fn with_playground(self, playground: bool) -> Self {
        Self { playground, ..self }
    }

    /// The same with another way to render chat templates; in this process unless told otherwise.
    #[must_use]
    pub fn with_renderer(mut self, renderer: Renderer) -> Self {
        self.usual.renderer = renderer;
        self
    }

    /// The same with policies and thresholds of exits for some targets and drafters.
    #[must_use]
    pub fn with_profiles(mut self, profiles: Profiles) -> Self {
        self.usual.profiles = profiles;
        self
    }
}

fn verifiers(texts: &[String], dialer: &Dialer, faults: &mut ConfigError) -> Vec<Location> {
    faults.sift(in_range("number of verifiers", texts.len(), 1..=PEERS_MAX));
    let dialer = dialer.to(Role::Verifier);
    faults.sift_all(texts.iter().take(PEERS_MAX).map(|text| Location::parse(text, &dialer)))
}

fn drafters(texts: &[String], dialer: &Dialer, faults: &mut ConfigError) -> Vec<Location> {
    faults.sift(in_range("number of drafters", texts.len(), 0..=PEERS_MAX));
    let dialer = dialer.to(Role::Drafter);
    faults.sift_all(texts.iter().take(PEERS_MAX).map(|text| Location::parse(text, &dialer)))
}

fn weights(texts: &[String], faults: &mut ConfigError) -> ClientWeights {
    faults.sift(in_range("number of client weights", texts.len(), 0..=WEIGHTS_MAX));
    faults.sift_all(texts.iter().take(WEIGHTS_MAX).map(|text| client_weight(text))).into_iter().collect()
}

/// Reads `NAME=N`; a name may hold the sign too.
fn client_weight(text: &str) -> Result<(String, usize), ConfigFault> {
    let weight = text.rsplit_once('=').and_then(|(name, weight)| Some((name.to_owned(), weight.parse().ok()?)));
    let (name, weight) = weight.ok_or_else(|| ConfigFault::Weight { found: text.to_owned() })?;
    Ok((name, in_range("client-weight", weight, 1..=WEIGHT_LIMIT)?))
}

fn in_range(name: &'static str, value: usize, range: RangeInclusive<usize>) -> Result<usize, ConfigFault> {
    if !range.contains(&value) {
        return Err(ConfigFault::Range { name, value, min: *range.start(), limit: *range.end() });
    }
    Ok(value)
}

/// The sizes up to which requests may ask for trees.
fn policy_limits(args: &Args) -> PolicyLimits {
    let max = |limit: Option<NonZeroUsize>| limit.map_or(usize::MAX, NonZeroUsize::get);
    PolicyLimits { max_nodes: max(args.policy_nodes_max), max_depth: max(args.policy_depth_max) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_speculation::Acceptance;

    use super::*;

    fn parsed(args: &[&str]) -> Result<Config, ConfigError> {
        let fixed = ["gateway", "--verifier", "http://127.0.0.1:1,http://127.0.0.1:2"];
        Config::from_args(&Args::try_parse_from(fixed.iter().chain(args)).unwrap(), Profiles::read)
    }

    #[tokio::test]
    async fn the_usual_configuration_needs_only_verifiers() {
        let config = parsed(&[]).unwrap();
        assert_eq!(config.verifiers.len(), 2);
        let policy = config.usual.policy("any", "any", Acceptance::Coupled);
        let AdmissionLimits { running, queued, .. } = config.limits;
        assert_eq!((policy.name(), running, queued), ("expected-gain", 256, 256));
    }

    #[tokio::test]
    async fn a_gateway_may_be_told_never_to_let_wait_and_who_is_given_more() {
        let args = ["--requests-max=3", "--queued-max=0", "--client-weight", "team=a=4,batch=1"];
        let AdmissionLimits { running, queued, weights, .. } = parsed(&args).unwrap().limits;
        assert_eq!((running, queued), (3, 0));
        let weight = |name: &str| weights.of(&crate::admission::Client::Named(name.into()));
        assert_eq!(["team=a", "batch", "other"].map(weight), [4, 1, 1]);
        for wrong in ["team", "team=", "team=-1"] {
            let refusal = client_weight(wrong).unwrap_err().to_string();
            assert_eq!(refusal, format!("`{wrong}` is not the name of a client and its weight, like `batch=2`"));
        }
    }

    #[tokio::test]
    async fn what_is_wrong_is_quoted() {
        let cases = [
            (["--drafter", "nowhere"], "`nowhere` is not an address of the form http://host:port"),
            (["--requests-max", "0"], "requests-max is 0, which is not between 1 and 65536"),
            (["--queued-max", "65537"], "queued-max is 65537, which is not between 0 and 65536"),
            (["--client-weight", "a=0"], "client-weight is 0, which is not between 1 and 100"),
        ];
        for (args, words) in cases {
            assert_eq!(parsed(&args).unwrap_err().to_string(), words);
        }
        assert!(parsed(&["--policy", "guess"]).unwrap_err().to_string().contains("`guess`"));
        for argument in ["--profiles", "--keys"] {
            let unreadable = parsed(&[argument, "/nowhere.json"]).unwrap_err().to_string();
            assert!(unreadable.starts_with("cannot read /nowhere.json: "), "{unreadable}");
        }
        assert!(Config::new(&[], &[]).is_err());
    }

    #[tokio::test]
    async fn all_that_is_wrong_is_told_together() {
        let args =
            ["--drafter", "here,there", "--policy", "guess", "--queued-max", "65537", "--client-weight", "a=0,b"];
        let refusal = parsed(&args).unwrap_err().to_string();
        let lines: Vec<&str> = refusal.lines().collect();
        let begins = [
            "`here` is not an address",
            "`there` is not an address",
            "unknown policy `guess`",
            "queued-max is 65537",
            "client-weight is 0",
            "`b` is not the name of a client",
        ];
        assert_eq!(lines.len(), begins.len(), "{refusal}");
        assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{refusal}");
    }
}
