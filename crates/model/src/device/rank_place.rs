//! Where a rank is among those that have parts of a model.

use candle_core::Device;

use super::cuda;
use super::shard::Shard;
use crate::device_kind::DeviceKind;
use crate::error::{ModelError, Result};

/// What drivers call it.
const OUT_OF_MEMORY: &str = "out of memory";

/// Where a rank is.
#[derive(Clone)]
pub(super) struct RankPlace {
    pub(super) device: Device,
    /// What the device is called.
    pub(super) kind: &'static str,
    /// Its part of the layers of its stage.
    pub(super) shard: Shard,
    /// Its number among the ranks of all stages, stage after stage.
    pub(super) rank: usize,
    /// How many these are.
    pub(super) ranks: usize,
}

impl RankPlace {
    /// Opens the devices of so many stages, each shared in these parts.
    ///
    /// # Errors
    /// A device that the program was not built for or the machine does not have.
    pub(super) fn open_all(kind: DeviceKind, shards: &[Shard], stages: usize) -> Result<Vec<Self>> {
        let ranks = shards.len() * stages;
        let all = shards.iter().cycle().take(ranks).enumerate();
        all.map(|(rank, shard)| {
            let device = open(kind, rank)?;
            Ok(Self { device, kind: name(kind), shard: *shard, rank, ranks })
        })
        .collect()
    }

    /// The error that says what the rank failed of.
    pub(super) fn failed(&self, fault: String) -> ModelError {
        let Self { kind: device, rank, ranks, .. } = *self;
        match fault.contains(OUT_OF_MEMORY) {
            true => ModelError::DeviceMemory { rank, ranks, device, fault },
            false => ModelError::RankFailed { rank, ranks, device, fault },
        }
    }

    /// Bytes that are free on its device; none where that is the host's memory.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn free(&self) -> Result<Option<usize>> {
        match &self.device {
            Device::Cuda(device) => cuda::free(device).map(Some),
            Device::Cpu | Device::Metal(_) => Ok(None),
        }
    }
}

/// What a device is called.
pub(super) fn name(device: DeviceKind) -> &'static str {
    match device {
        DeviceKind::Cpu | DeviceKind::Candle => "candle",
        DeviceKind::Emulated => "emulated",
        DeviceKind::Cuda(_) => "cuda",
    }
}

/// Opens the device of a rank.
pub(super) fn open(kind: DeviceKind, rank: usize) -> Result<Device> {
    match kind {
        DeviceKind::Cpu | DeviceKind::Candle | DeviceKind::Emulated => Ok(Device::Cpu),
        DeviceKind::Cuda(first) => cuda::open(first + rank),
    }
}
