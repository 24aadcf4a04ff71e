//! The messages of each service.

use serde::Serialize;

use crate::common::{check_length, check_text, required, wire_count};
use crate::error::WireError;
use crate::pb;
use crate::status::{KvMemory, PassCounts, Process, RoundCounts, Slots};
use crate::verifier_card::{MODEL_NAME_BYTES_MAX, check_arithmetic};

/// The most targets that a drafter tells of one by one.
pub const TARGETS_MAX: usize = 64;

/// The most verifiers, and drafters, of a system.
const SERVICES_MAX: usize = 256;

/// The longest address of a service, in bytes.
const URL_BYTES_MAX: usize = 1024;

/// What a verifier tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifierStatus {
    /// Its process.
    pub process: Process,
    /// Its slots for sequences.
    pub sequences: Slots,
    /// Trees handed in and not answered yet.
    pub trees_waiting: usize,
    /// Passes of the target.
    pub passes: PassCounts,
    /// Rounds decided.
    pub rounds: RoundCounts,
    /// Its memory for keys and values.
    pub kv: KvMemory,
    /// What its products are computed in, as on its card; empty if it does not tell, as earlier versions do.
    pub arithmetic: String,
}

impl From<VerifierStatus> for pb::VerifierStatusResponse {
    fn from(status: VerifierStatus) -> Self {
        Self {
            process: Some(status.process.into()),
            sequences: Some(status.sequences.into()),
            trees_waiting: wire_count(status.trees_waiting),
            passes: Some(status.passes.into()),
            rounds: Some(status.rounds.into()),
            kv: Some(status.kv.into()),
            arithmetic: status.arithmetic,
        }
    }
}

impl TryFrom<pb::VerifierStatusResponse> for VerifierStatus {
    type Error = WireError;

    fn try_from(wire: pb::VerifierStatusResponse) -> Result<Self, WireError> {
        check_told("arithmetic", &wire.arithmetic)?;
        Ok(Self {
            process: required("process", wire.process)?.into(),
            sequences: required("sequences", wire.sequences)?.try_into()?,
            trees_waiting: wire.trees_waiting as usize,
            passes: required("passes", wire.passes)?.into(),
            rounds: required("rounds", wire.rounds)?.into(),
            kv: required("kv", wire.kv)?.try_into()?,
            arithmetic: wire.arithmetic,
        })
    }
}

/// Checks the name of an arithmetic, if there is one.
fn check_told(field: &'static str, arithmetic: &str) -> Result<(), WireError> {
    if arithmetic.is_empty() { Ok(()) } else { check_arithmetic(field, arithmetic) }
}

/// What a drafter tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrafterStatus {
    /// Its process.
    pub process: Process,
    /// Its slots for sequences.
    pub sequences: Slots,
    /// Sequences for which a tree is being grown, those that wait for the model included.
    pub trees_growing: usize,
    /// Passes of the draft model: levels of trees, and pieces of prompts.
    pub passes: PassCounts,
    /// Rounds run, for all targets.
    pub rounds: RoundCounts,
    /// Its memory for keys and values.
    pub kv: KvMemory,
    /// What its products are computed in, as on its card; empty if it does not tell, as earlier versions do.
    pub arithmetic: String,
    /// The same by target, by name; at most [`TARGETS_MAX`], the first that it met.
    pub targets: Vec<TargetStatus>,
}

/// What a drafter does for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetStatus {
    /// The target's name.
    pub name: String,
    /// Its sequences.
    pub sequences_open: usize,
    /// Rounds run for it.
    pub rounds: RoundCounts,
}

impl From<DrafterStatus> for pb::DrafterStatusResponse {
    fn from(status: DrafterStatus) -> Self {
        Self {
            process: Some(status.process.into()),
            sequences: Some(status.sequences.into()),
            trees_growing: wire_count(status.trees_growing),
            passes: Some(status.passes.into()),
            rounds: Some(status.rounds.into()),
            kv: Some(status.kv.into()),
            arithmetic: status.arithmetic,
            targets: status.targets.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::DrafterStatusResponse> for DrafterStatus {
    type Error = WireError;

    fn try_from(wire: pb::DrafterStatusResponse) -> Result<Self, WireError> {
        check_length("targets", wire.targets.len(), TARGETS_MAX)?;
        check_told("arithmetic", &wire.arithmetic)?;
        Ok(Self {
            process: required("process", wire.process)?.into(),
            sequences: required("sequences", wire.sequences)?.try_into()?,
            trees_growing: wire.trees_growing as usize,
            passes: required("passes", wire.passes)?.into(),
            rounds: required("rounds", wire.rounds)?.into(),
            kv: required("kv", wire.kv)?.try_into()?,
            arithmetic: wire.arithmetic,
            targets: wire.targets.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        })
    }
}

impl From<TargetStatus> for pb::TargetStatus {
    fn from(status: TargetStatus) -> Self {
        let sequences_open = wire_count(status.sequences_open);
        Self { name: status.name, sequences_open, rounds: Some(status.rounds.into()) }
    }
}

impl TryFrom<pb::TargetStatus> for TargetStatus {
    type Error = WireError;

    fn try_from(wire: pb::TargetStatus) -> Result<Self, WireError> {
        check_text("targets.name", &wire.name, MODEL_NAME_BYTES_MAX)?;
        let rounds = required("targets.rounds", wire.rounds)?.into();
        Ok(Self { name: wire.name, sequences_open: wire.sequences_open as usize, rounds })
    }
}

/// What the gateway tells of a whole system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemStatus {
    /// Itself.
    pub gateway: GatewayStatus,
    /// Every verifier that it was told of.
    pub verifiers: Vec<ServiceState<VerifierStatus>>,
    /// Every drafter that it was told of.
    pub drafters: Vec<ServiceState<DrafterStatus>>,
}

/// What a gateway tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatewayStatus {
    /// Its process.
    pub process: Process,
    /// Its slots for requests.
    pub requests: Slots,
    /// Requests that wait for a slot.
    pub requests_queued: usize,
    /// What became of requests.
    pub ended: EndCounts,
    /// Rounds of all requests, with and without a drafter.
    pub rounds: RoundCounts,
}

/// What became of requests that are over, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EndCounts {
    /// They ended with a stop token or a stop string.
    pub stop: u64,
    /// They ended at their token limit.
    pub length: u64,
    /// They failed after they had been admitted.
    pub failed: u64,
    /// Their clients went away.
    pub abandoned: u64,
    /// They were refused for want of a slot.
    pub refused: u64,
    /// They were refused because of what they asked for.
    pub invalid: u64,
}

/// A service as the gateway sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceState<S> {
    /// Where it is.
    pub url: String,
    /// The name of its model, if it has ever told.
    pub name: Option<String>,
    /// Whether it answered when it was last asked what it is.
    pub up: bool,
    /// What it told when it was asked just now, if it did.
    pub status: Option<S>,
}

impl From<SystemStatus> for pb::SystemStatusResponse {
    fn from(status: SystemStatus) -> Self {
        Self {
            gateway: Some(status.gateway.into()),
            verifiers: status.verifiers.into_iter().map(Into::into).collect(),
            drafters: status.drafters.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::SystemStatusResponse> for SystemStatus {
    type Error = WireError;

    fn try_from(wire: pb::SystemStatusResponse) -> Result<Self, WireError> {
        check_length("verifiers", wire.verifiers.len(), SERVICES_MAX)?;
        check_length("drafters", wire.drafters.len(), SERVICES_MAX)?;
        Ok(Self {
            gateway: required("gateway", wire.gateway)?.try_into()?,
            verifiers: wire.verifiers.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            drafters: wire.drafters.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        })
    }
}

impl From<GatewayStatus> for pb::GatewayStatus {
    fn from(status: GatewayStatus) -> Self {
        let EndCounts { stop, length, failed, abandoned, refused, invalid } = status.ended;
        Self {
            process: Some(status.process.into()),
            requests: Some(status.requests.into()),
            requests_queued: wire_count(status.requests_queued),
            ended: Some(pb::EndCounts { stop, length, failed, abandoned, refused, invalid }),
            rounds: Some(status.rounds.into()),
        }
    }
}

impl TryFrom<pb::GatewayStatus> for GatewayStatus {
    type Error = WireError;

    fn try_from(wire: pb::GatewayStatus) -> Result<Self, WireError> {
        let pb::EndCounts { stop, length, failed, abandoned, refused, invalid } = required("ended", wire.ended)?;
        Ok(Self {
            process: required("process", wire.process)?.into(),
            requests: required("requests", wire.requests)?.try_into()?,
            requests_queued: wire.requests_queued as usize,
            ended: EndCounts { stop, length, failed, abandoned, refused, invalid },
            rounds: required("rounds", wire.rounds)?.into(),
        })
    }
}

impl From<ServiceState<VerifierStatus>> for pb::VerifierState {
    fn from(state: ServiceState<VerifierStatus>) -> Self {
        let ServiceState { url, name, up, status } = state;
        Self { url, name: name.unwrap_or_default(), up, status: status.map(Into::into) }
    }
}

impl From<ServiceState<DrafterStatus>> for pb::DrafterState {
    fn from(state: ServiceState<DrafterStatus>) -> Self {
        let ServiceState { url, name, up, status } = state;
        Self { url, name: name.unwrap_or_default(), up, status: status.map(Into::into) }
    }
}

impl TryFrom<pb::VerifierState> for ServiceState<VerifierStatus> {
    type Error = WireError;

    fn try_from(wire: pb::VerifierState) -> Result<Self, WireError> {
        let status = wire.status.map(TryInto::try_into).transpose()?;
        read_state(wire.url, wire.name, wire.up, status)
    }
}

impl TryFrom<pb::DrafterState> for ServiceState<DrafterStatus> {
    type Error = WireError;

    fn try_from(wire: pb::DrafterState) -> Result<Self, WireError> {
        let status = wire.status.map(TryInto::try_into).transpose()?;
        read_state(wire.url, wire.name, wire.up, status)
    }
}

fn read_state<S>(url: String, name: String, up: bool, status: Option<S>) -> Result<ServiceState<S>, WireError> {
    check_text("url", &url, URL_BYTES_MAX)?;
    check_length("name", name.len(), MODEL_NAME_BYTES_MAX)?;
    Ok(ServiceState { url, name: Some(name).filter(|name| !name.is_empty()), up, status })
}
