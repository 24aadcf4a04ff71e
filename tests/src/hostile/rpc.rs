//! Every RPC of every service.

use std::fmt;

use espalier_proto::pb;
use prost::Message;
use tonic_health::pb::HealthCheckRequest;
use tonic_reflection::pb::v1::ServerReflectionRequest;

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The gateway.
    Gateway,
    /// The drafter.
    Drafter,
    /// The verifier.
    Verifier,
}

impl Host {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gateway, Self::Drafter, Self::Verifier];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Drafter => "drafter",
            Self::Verifier => "verifier",
        }
    }

    /// The name of its own service of the protocol, as health knows it.
    pub(super) fn service(self) -> &'static str {
        match self {
            Self::Gateway => "espalier.v1.Generation",
            Self::Drafter => "espalier.v1.Drafter",
            Self::Verifier => "espalier.v1.Verifier",
        }
    }
}

/// What an RPC asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// A message without fields.
    Nothing,
    Generate,
    Speculate,
    Verify,
    Check,
    Watch,
    Reflection,
}

/// One RPC of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rpc {
    /// Whose it is.
    pub host: Host,
    /// Its path.
    pub path: &'static str,
    pub(super) asks: Asks,
}

const HEALTH: [(&str, Asks); 2] =
    [("/grpc.health.v1.Health/Check", Asks::Check), ("/grpc.health.v1.Health/Watch", Asks::Watch)];

const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

impl Rpc {
    /// All of them: each service's own, health, and reflection.
    pub fn all() -> Vec<Self> {
        Host::ALL.into_iter().flat_map(Self::of).collect()
    }

    fn of(host: Host) -> Vec<Self> {
        let own: &[(&str, Asks)] = match host {
            Host::Gateway => &[
                ("/espalier.v1.Generation/Generate", Asks::Generate),
                ("/espalier.v1.Generation/ListTargets", Asks::Nothing),
                ("/espalier.v1.Generation/Status", Asks::Nothing),
            ],
            Host::Drafter => &[
                ("/espalier.v1.Drafter/Describe", Asks::Nothing),
                ("/espalier.v1.Drafter/Speculate", Asks::Speculate),
                ("/espalier.v1.Drafter/Status", Asks::Nothing),
            ],
            Host::Verifier => &[
                ("/espalier.v1.Verifier/Describe", Asks::Nothing),
                ("/espalier.v1.Verifier/FetchTokenizer", Asks::Nothing),
                ("/espalier.v1.Verifier/Verify", Asks::Verify),
                ("/espalier.v1.Verifier/Status", Asks::Nothing),
            ],
        };
        let all = own.iter().chain(&HEALTH).chain(&[(REFLECTION, Asks::Reflection)]);
        all.map(|&(path, asks)| Self { host, path, asks }).collect()
    }

    /// Whether its caller may send several messages.
    pub(super) fn is_stream(self) -> bool {
        matches!(self.asks, Asks::Speculate | Asks::Verify | Asks::Reflection)
    }

    /// Whether its answer has no end.
    pub(super) fn never_ends(self) -> bool {
        self.asks == Asks::Watch
    }

    /// Whether it takes places, of which there may be none.
    pub(super) fn takes_places(self) -> bool {
        // A gateway asks all services for their status in a bounded number of surveys.
        matches!(self.asks, Asks::Generate | Asks::Speculate | Asks::Verify) || self.path.ends_with("Generation/Status")
    }

    /// Whether bytes are a message that it asks for, as another program would read it.
    pub(super) fn decodes(self, bytes: &[u8]) -> bool {
        match self.asks {
            Asks::Nothing => pb::ListTargetsRequest::decode(bytes).is_ok(),
            Asks::Generate => pb::GenerateRequest::decode(bytes).is_ok(),
            Asks::Speculate => pb::SpeculateRequest::decode(bytes).is_ok(),
            Asks::Verify => pb::VerifyRequest::decode(bytes).is_ok(),
            Asks::Check | Asks::Watch => HealthCheckRequest::decode(bytes).is_ok(),
            Asks::Reflection => ServerReflectionRequest::decode(bytes).is_ok(),
        }
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        write!(f, "{} {name}", self.host.name())
    }
}
