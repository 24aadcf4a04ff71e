//! Where services are and what computes for them.

use serde::{Deserialize, Serialize};

use super::error::{ScenarioError, within};

/// The doors, which are alike.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gateways {
    /// How many.
    pub count: usize,
    /// Requests that each serves at once.
    pub requests: usize,
    /// Requests that wait at each.
    pub queued: usize,
}

impl Default for Gateways {
    fn default() -> Self {
        Self { count: 1, requests: 256, queued: 256 }
    }
}

/// How far services are from each other: those of one zone, and those of two. Gateways and clients are in the zone without
/// a name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// There and back within a zone, in milliseconds.
    pub round_trip_ms: f64,
    /// There and back between zones.
    pub between_zones_ms: f64,
}

impl Default for Network {
    fn default() -> Self {
        Self { round_trip_ms: 0.3, between_zones_ms: 1.0 }
    }
}

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Machine {
    /// Each service has a device of its own.
    Own(Own),
    /// All are in one process, and share its processors.
    Shared(Shared),
}

/// Devices of their own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Own {
    /// What sending and receiving a message takes, in microseconds: it comes on top of the network.
    pub message_us: f64,
    /// What a gateway does before a request has a sequence: reading, rendering, tokenizing.
    pub intake_us: f64,
    /// What an engine does besides each pass, for each sequence of it.
    pub sequence_us: f64,
}

impl Default for Own {
    fn default() -> Self {
        Self { message_us: 50.0, intake_us: 500.0, sequence_us: 2.0 }
    }
}

/// The processors of one process: a team of threads that computes one pass at a time, and a thread that handles messages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shared {
    /// Processors.
    pub cores: usize,
    /// Threads of the team.
    pub threads: usize,
    /// What handling a message takes of a processor, in microseconds: sent, received, and the tasks that it wakes.
    pub message_us: f64,
    /// What waking the thread takes when a message comes and it has none to handle.
    pub wake_us: f64,
    /// The tick of the system's clock, at which threads that were put aside are given a processor again.
    pub tick_us: f64,
    /// How long a thread computes before it has to make way for one that was woken, at a tick.
    pub stay_us: f64,
    /// What beginning a stream takes besides its first message.
    pub stream_us: f64,
    /// What a gateway does before a request has a sequence, on a thread of its own: reading, rendering, tokenizing.
    pub intake_us: f64,
    /// What a verifier does before a sequence's first pass: blocks for its keys and values, and copies of what is known.
    pub opening_us: f64,
    /// What a verifier does besides each pass.
    pub turn_us: f64,
    /// What a drafter does besides each level.
    pub level_us: f64,
    /// What either does for each sequence of the pass.
    pub sequence_us: f64,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            cores: 2,
            threads: 2,
            message_us: 20.0,
            wake_us: 20.0,
            tick_us: 4000.0,
            stay_us: 1400.0,
            stream_us: 100.0,
            intake_us: 400.0,
            opening_us: 200.0,
            turn_us: 40.0,
            level_us: 10.0,
            sequence_us: 2.0,
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::Own(Own::default())
    }
}

/// Drafters of a pool that are lost, and come back with nothing that they knew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The pool.
    pub drafters: String,
    /// How many of it; all if absent.
    #[serde(default)]
    pub count: Option<usize>,
    /// When they are lost.
    pub at_seconds: f64,
    /// When they are back; never if absent.
    #[serde(default)]
    pub until_seconds: Option<f64>,
}

impl Gateways {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        within(|| "gateways.count".to_owned(), self.count as f64, 1.0..=10_000.0)?;
        within(|| "gateways.requests".to_owned(), self.requests as f64, 1.0..=espalier_gateway::REQUESTS_LIMIT as f64)?;
        within(|| "gateways.queued".to_owned(), self.queued as f64, 0.0..=espalier_gateway::REQUESTS_LIMIT as f64)
    }
}

impl Network {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        within(|| "network.round_trip_ms".to_owned(), self.round_trip_ms, 0.0..=10_000.0)?;
        within(|| "network.between_zones_ms".to_owned(), self.between_zones_ms, 0.0..=10_000.0)
    }
}

impl Machine {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let us = |kind: &str, name: &str, found: f64| within(|| format!("machine.{kind}.{name}"), found, 0.0..=1e6);
        match self {
            Self::Own(own) => {
                us("own", "message_us", own.message_us)?;
                us("own", "sequence_us", own.sequence_us)?;
                us("own", "intake_us", own.intake_us)
            }
            Self::Shared(shared) => {
                within(|| "machine.shared.cores".to_owned(), shared.cores as f64, 1.0..=4096.0)?;
                within(|| "machine.shared.threads".to_owned(), shared.threads as f64, 1.0..=4096.0)?;
                us("shared", "message_us", shared.message_us)?;
                us("shared", "wake_us", shared.wake_us)?;
                within(|| "machine.shared.tick_us".to_owned(), shared.tick_us, 1.0..=1e6)?;
                us("shared", "stay_us", shared.stay_us)?;
                us("shared", "stream_us", shared.stream_us)?;
                us("shared", "intake_us", shared.intake_us)?;
                us("shared", "opening_us", shared.opening_us)?;
                us("shared", "turn_us", shared.turn_us)?;
                us("shared", "level_us", shared.level_us)?;
                us("shared", "sequence_us", shared.sequence_us)
            }
        }
    }
}

impl Failure {
    pub(super) fn check(&self, field: &str, pools: &[&str]) -> Result<(), ScenarioError> {
        if !pools.contains(&self.drafters.as_str()) {
            let (field, found) = (format!("{field}.drafters"), self.drafters.clone());
            return Err(ScenarioError::Name { field, found, fault: "which no drafters are called" });
        }
        within(|| format!("{field}.at_seconds"), self.at_seconds, 0.0..=1e6)?;
        within(|| format!("{field}.until_seconds"), self.until_seconds.unwrap_or(1e6), self.at_seconds..=1e6)
    }
}
