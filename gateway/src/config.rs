//! What a gateway is told when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use espalier_service_kit::TelemetryArgs;
use espalier_speculation::PolicyError;
use thiserror::Error;

use crate::address::{AddressError, Place};
use crate::profiles::{Profiles, ProfilesError};
use crate::resolver::Resolver;
use crate::usual::Usual;

/// The most verifiers, and the most drafters, that a gateway may be given or find.
pub const PEERS_MAX: usize = 256;

/// The most requests that a gateway may be told to serve at once.
pub const REQUESTS_LIMIT: usize = 65_536;

/// The only door: validates, tokenizes, routes, grants rounds, streams text.
#[derive(Debug, Clone, Parser)]
#[command(name = "espalier-gateway", version)]
pub struct Args {
    /// A verifier's address; several may be given. `dns+http://name:port` stands for all addresses of a name, at all times
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
    /// Policies, and thresholds of exits as `espalier tune thresholds` writes them, by target and drafter; drafters that
    /// are not named there choose their own thresholds
    #[arg(long, env = "ESPALIER_GATEWAY_PROFILES", value_name = "FILE.json")]
    pub profiles: Option<PathBuf>,
    /// Requests served at once; more are refused
    #[arg(long, env = "ESPALIER_GATEWAY_REQUESTS_MAX", default_value_t = Config::REQUESTS_MAX, value_name = "N")]
    pub requests_max: usize,
    /// Logs and traces
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// An argument that is wrong.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// An address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The default policy is none.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The profiles are none.
    #[error(transparent)]
    Profiles(#[from] ProfilesError),
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
    pub(crate) verifiers: Vec<Place>,
    pub(crate) drafters: Vec<Place>,
    pub(crate) resolver: Resolver,
    pub(crate) usual: Usual,
    pub(crate) requests_max: usize,
}

impl Config {
    /// How trees are grown unless told otherwise.
    pub const POLICY: &'static str = "expected-gain";

    /// How trees are grown by rejection where the usual policy chooses among drawn tokens: chains that end where the
    /// draft is in doubt, as a rejected token costs more than a missing one.
    pub const DRAWN_POLICY: &'static str = "svip";

    /// Requests served at once unless told otherwise.
    pub const REQUESTS_MAX: usize = 256;

    /// What the arguments mean. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ConfigError`] quotes the first argument that is wrong.
    pub fn from_args(args: &Args) -> Result<Self, ConfigError> {
        let limit = REQUESTS_LIMIT;
        let profiles = args.profiles.as_deref().map(Profiles::read).transpose()?;
        Ok(Self {
            usual: Usual::new(&args.policy, profiles.unwrap_or_default())?,
            requests_max: in_range("requests-max", args.requests_max, (1, limit))?,
            ..Self::new(&args.verifiers, &args.drafters)?
        })
    }

    /// The usual configuration for these verifiers and drafters, each given as
    /// `http://host:port`, or as `dns+http://name:port` for all addresses of a name. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// An address that is none, no verifier, or too many.
    pub fn new(verifiers: &[String], drafters: &[String]) -> Result<Self, ConfigError> {
        in_range("number of verifiers", verifiers.len(), (1, PEERS_MAX))?;
        in_range("number of drafters", drafters.len(), (0, PEERS_MAX))?;
        Ok(Self {
            verifiers: places(verifiers)?,
            drafters: places(drafters)?,
            resolver: Resolver::system(),
            usual: Usual::new(Self::POLICY, Profiles::default())?,
            requests_max: Self::REQUESTS_MAX,
        })
    }

    /// The same with another way to look names up.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Resolver) -> Self {
        self.resolver = resolver;
        self
    }

    /// The same with policies and thresholds of exits for some targets and drafters.
    #[must_use]
    pub fn with_profiles(mut self, profiles: Profiles) -> Self {
        self.usual.profiles = profiles;
        self
    }
}

fn places(texts: &[String]) -> Result<Vec<Place>, ConfigError> {
    texts.iter().map(|text| Ok(Place::parse(text)?)).collect()
}

fn in_range(name: &'static str, value: usize, (min, limit): (usize, usize)) -> Result<usize, ConfigError> {
    if !(min..=limit).contains(&value) {
        return Err(ConfigError::Range { name, value, min, limit });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_speculation::Acceptance;

    use super::*;

    fn parsed(args: &[&str]) -> Result<Config, ConfigError> {
        let fixed = ["gateway", "--verifier", "http://127.0.0.1:1,http://127.0.0.1:2"];
        Config::from_args(&Args::try_parse_from(fixed.iter().chain(args)).unwrap())
    }

    #[tokio::test]
    async fn the_usual_configuration_needs_only_verifiers() {
        let config = parsed(&[]).unwrap();
        assert_eq!(config.verifiers.len(), 2);
        let policy = config.usual.policy("any", "any", Acceptance::Coupled);
        assert_eq!((policy.name(), config.requests_max), ("expected-gain", 256));
    }

    #[tokio::test]
    async fn what_is_wrong_is_quoted() {
        let cases = [
            (["--drafter", "nowhere"], "`nowhere` is not an address of the form http://host:port"),
            (["--requests-max", "0"], "requests-max is 0, which is not between 1 and 65536"),
        ];
        for (args, words) in cases {
            assert_eq!(parsed(&args).unwrap_err().to_string(), words);
        }
        assert!(parsed(&["--policy", "guess"]).unwrap_err().to_string().contains("`guess`"));
        let unreadable = parsed(&["--profiles", "/nowhere.json"]).unwrap_err().to_string();
        assert_eq!(unreadable, "cannot read /nowhere.json");
        assert!(Config::new(&[], &[]).is_err());
    }
}
