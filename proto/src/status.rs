//! What services tell of their work.

mod counters;
mod metrics;
mod services;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use counters::{PassCounters, RoundCounters};
pub use metrics::ModelAtWork;
pub use services::{
    DrafterStatus, EndCounts, GatewayStatus, ServiceState, SystemStatus, TARGETS_MAX, TargetStatus, VerifierStatus,
};

use serde::Serialize;

use crate::common::wire_count;
use crate::error::WireError;
use crate::pb;

/// The process that a service runs in; several may share one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Process {
    /// Time since the service was started; it travels in milliseconds.
    pub uptime: Duration,
    /// Memory of the process that is resident; none where the system does not tell.
    pub resident_bytes: Option<u64>,
}

/// Slots, each for one sequence or request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slots {
    /// Those that are taken.
    pub open: usize,
    /// All of them.
    pub max: usize,
}

/// Forward passes since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassCounts {
    /// How many there were.
    pub passes: u64,
    /// Rows run, summed over the passes.
    pub rows: u64,
    /// Sequences that had some of them, summed over the passes.
    pub sequences: u64,
    /// Of a verifier: open sequences past their prompt that had none, summed over the passes.
    pub missed: u64,
}

/// Rounds whose outcomes are known, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundCounts {
    /// How many there were.
    pub rounds: u64,
    /// Nodes drafted, before pruning; 0 of a verifier, which cannot know.
    pub drafted: u64,
    /// Nodes sent and verified.
    pub verified: u64,
    /// Draft tokens that were committed.
    pub accepted: u64,
    /// All tokens committed.
    pub tokens: u64,
}

/// Memory for keys and values, in blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct KvMemory {
    /// All of them.
    pub blocks: u64,
    /// Those that sequences hold; a shared one counts once.
    pub held: u64,
    /// Those that sequences were promised and do not hold yet.
    pub promised: u64,
    /// Those that nobody holds and that keep a prefix until they are needed.
    pub lingering: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
}

impl From<Process> for pb::Process {
    fn from(process: Process) -> Self {
        let uptime_ms = u64::try_from(process.uptime.as_millis()).unwrap_or(u64::MAX);
        Self { uptime_ms, resident_bytes: process.resident_bytes }
    }
}

impl From<pb::Process> for Process {
    fn from(wire: pb::Process) -> Self {
        Self { uptime: Duration::from_millis(wire.uptime_ms), resident_bytes: wire.resident_bytes }
    }
}

impl From<Slots> for pb::Slots {
    fn from(slots: Slots) -> Self {
        Self { open: wire_count(slots.open), max: wire_count(slots.max) }
    }
}

impl TryFrom<pb::Slots> for Slots {
    type Error = WireError;

    fn try_from(wire: pb::Slots) -> Result<Self, WireError> {
        at_most("slots.open", wire.open.into(), wire.max.into())?;
        Ok(Self { open: wire.open as usize, max: wire.max as usize })
    }
}

impl From<PassCounts> for pb::PassCounts {
    fn from(counts: PassCounts) -> Self {
        let PassCounts { passes, rows, sequences, missed } = counts;
        Self { passes, rows, sequences, missed }
    }
}

impl From<pb::PassCounts> for PassCounts {
    fn from(wire: pb::PassCounts) -> Self {
        let pb::PassCounts { passes, rows, sequences, missed } = wire;
        Self { passes, rows, sequences, missed }
    }
}

impl From<RoundCounts> for pb::RoundCounts {
    fn from(counts: RoundCounts) -> Self {
        let RoundCounts { rounds, drafted, verified, accepted, tokens } = counts;
        Self { rounds, drafted, verified, accepted, tokens }
    }
}

impl From<pb::RoundCounts> for RoundCounts {
    fn from(wire: pb::RoundCounts) -> Self {
        let pb::RoundCounts { rounds, drafted, verified, accepted, tokens } = wire;
        Self { rounds, drafted, verified, accepted, tokens }
    }
}

impl From<KvMemory> for pb::KvMemory {
    fn from(kv: KvMemory) -> Self {
        let KvMemory { blocks, held, promised, lingering, block_bytes } = kv;
        Self { blocks, held, promised, lingering, block_bytes }
    }
}

impl TryFrom<pb::KvMemory> for KvMemory {
    type Error = WireError;

    /// What is held, promised or lingers is some of what there is. Promises may rest on blocks that linger.
    fn try_from(wire: pb::KvMemory) -> Result<Self, WireError> {
        let pb::KvMemory { blocks, held, promised, lingering, block_bytes } = wire;
        at_most("kv.held and kv.lingering", held.saturating_add(lingering), blocks)?;
        at_most("kv.held and kv.promised", held.saturating_add(promised), blocks)?;
        Ok(Self { blocks, held, promised, lingering, block_bytes })
    }
}

fn at_most(field: &'static str, value: u64, limit: u64) -> Result<(), WireError> {
    match value > limit {
        true => Err(WireError::TooLarge { field, value, limit }),
        false => Ok(()),
    }
}
