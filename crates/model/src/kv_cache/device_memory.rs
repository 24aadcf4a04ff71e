//! Keys and values on a device.

use candle_core::{DType, Device, Result, Tensor};
use parking_lot::{Mutex, MutexGuard};

use super::block::{BLOCK, BlockId, BlockRow};
use super::cache_shape::CacheShape;
use super::fault::PoolFault;

/// The keys and values that ranks keep, each on its device those of its own heads.
pub(super) struct DeviceMemory(Vec<RankMemory>);

/// For each layer the slots of all blocks, side by side: a block's number and a row in it say which. Tensors are written in
/// place, and the ledger says by whom.
pub(super) struct RankMemory {
    device: Device,
    dtype: DType,
    /// (blocks * BLOCK, kv_heads, head_dim)
    slots: [usize; 3],
    layers: usize,
    made: Mutex<Vec<KeysAndValues>>,
}

/// Those of a layer: (blocks * BLOCK, kv_heads, head_dim) each.
#[derive(Clone)]
pub(crate) struct KeysAndValues {
    pub(crate) keys: Tensor,
    pub(crate) values: Tensor,
}

impl BlockRow {
    /// Its place among the slots of all blocks.
    pub(super) fn slot(self) -> usize {
        let BlockId(block) = self.block;
        block * BLOCK + self.row
    }
}

impl DeviceMemory {
    pub(super) fn new(shape: CacheShape, devices: &[Device], dtype: DType, blocks: usize) -> Self {
        let slots = [blocks * BLOCK, shape.kv_heads / devices.len().max(1), shape.head_dim];
        let memory = |device: &Device| RankMemory {
            device: device.clone(),
            dtype,
            slots,
            layers: shape.layers,
            made: Mutex::default(),
        };
        Self(devices.iter().map(memory).collect())
    }

    /// That of a rank.
    pub(super) fn of_rank(&self, rank: usize) -> Option<&RankMemory> {
        self.0.get(rank)
    }

    /// Makes all of it, if it is not there yet.
    ///
    /// # Errors
    /// A device has no room for it.
    pub(super) fn make(&self) -> Result<()> {
        self.0.iter().try_for_each(|memory| memory.layers().map(drop))
    }

    /// See [`super::memory::Memory::copy`].
    pub(super) fn copy(&self, from: BlockRow, to: BlockRow, rows: usize) -> std::result::Result<(), PoolFault> {
        self.0.iter().try_for_each(|memory| memory.copy(from, to, rows)).map_err(|fault| {
            tracing::error!("keys and values could not be copied: {fault}");
            PoolFault::Device
        })
    }
}

impl RankMemory {
    /// Those of a layer.
    ///
    /// # Errors
    /// The device has no room for all layers.
    pub(super) fn layer(&self, layer: usize) -> Result<KeysAndValues> {
        Ok(self.layers()?[layer].clone())
    }

    /// Those of all layers, made when first asked for.
    fn layers(&self) -> Result<MutexGuard<'_, Vec<KeysAndValues>>> {
        let mut made = self.made.lock();
        if made.is_empty() {
            let zeros = || Tensor::zeros(&self.slots, self.dtype, &self.device);
            let make = |_| Ok(KeysAndValues { keys: zeros()?, values: zeros()? });
            *made = (0..self.layers).map(make).collect::<Result<_>>()?;
        }
        Ok(made)
    }

    fn copy(&self, from: BlockRow, to: BlockRow, rows: usize) -> Result<()> {
        let copy = |tensor: &Tensor| {
            let rows = tensor.narrow(0, from.slot(), rows)?.force_contiguous()?;
            tensor.slice_set(&rows, 0, to.slot())
        };
        self.layers()?.iter().try_for_each(|KeysAndValues { keys, values }| copy(keys).and_then(|()| copy(values)))
    }
}
