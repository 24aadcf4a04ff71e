//! Every RPC of every service.

use std::fmt;

use espalier_proto::pb;
use espalier_service_kit::Role;
use prost::Message;
use tonic_health::pb::HealthCheckRequest;
use tonic_reflection::pb::v1::ServerReflectionRequest;

/// The name of a service of the protocol, as health knows it.
pub(super) fn service(role: Role) -> &'static str {
    match role {
        Role::Gateway => "espalier.v1.Generation",
        Role::Drafter => "espalier.v1.Drafter",
        Role::Verifier => "espalier.v1.Verifier",
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
    pub role: Role,
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
        Role::ALL.into_iter().flat_map(Self::of).collect()
    }

    fn of(role: Role) -> Vec<Self> {
        let own: &[(&str, Asks)] = match role {
            Role::Gateway => &[
                ("/espalier.v1.Generation/Generate", Asks::Generate),
                ("/espalier.v1.Generation/ListTargets", Asks::Nothing),
                ("/espalier.v1.Generation/Status", Asks::Nothing),
            ],
            Role::Drafter => &[
                ("/espalier.v1.Drafter/Describe", Asks::Nothing),
                ("/espalier.v1.Drafter/Speculate", Asks::Speculate),
                ("/espalier.v1.Drafter/Status", Asks::Nothing),
            ],
            Role::Verifier => &[
                ("/espalier.v1.Verifier/Describe", Asks::Nothing),
                ("/espalier.v1.Verifier/FetchTokenizer", Asks::Nothing),
                ("/espalier.v1.Verifier/Verify", Asks::Verify),
                ("/espalier.v1.Verifier/Status", Asks::Nothing),
            ],
        };
        let all = own.iter().chain(&HEALTH).chain(&[(REFLECTION, Asks::Reflection)]);
        all.map(|&(path, asks)| Self { role, path, asks }).collect()
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
        write!(f, "{} {name}", self.role.name())
    }
}
