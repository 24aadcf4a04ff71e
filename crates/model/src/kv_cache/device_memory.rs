//! Keys and values on a device.

use candle_core::{DType, Device, Result, Tensor};
use parking_lot::Mutex;

use super::block::{BLOCK, BlockId, BlockRow};
use super::cache_shape::CacheShape;
use super::fault::PoolFault;

/// For each layer the slots of all blocks, side by side: a block's number and a row in it say which. Tensors are written in
/// place, and the ledger says by whom.
pub(super) struct DeviceMemory {
    shape: CacheShape,
    device: Device,
    dtype: DType,
    blocks: usize,
    layers: Mutex<Vec<KeysAndValues>>,
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
    pub(super) fn new(shape: CacheShape, device: &Device, dtype: DType, blocks: usize) -> Self {
        Self { shape, device: device.clone(), dtype, blocks, layers: Mutex::default() }
    }

    /// Those of a layer.
    ///
    /// # Errors
    /// The device has no room for all layers.
    pub(super) fn layer(&self, layer: usize) -> Result<KeysAndValues> {
        let mut layers = self.layers.lock();
        if layers.is_empty() {
            let zeros = || {
                let CacheShape { kv_heads, head_dim, .. } = self.shape;
                Tensor::zeros((self.blocks * BLOCK, kv_heads, head_dim), self.dtype, &self.device)
            };
            let make = |_| Ok(KeysAndValues { keys: zeros()?, values: zeros()? });
            *layers = (0..self.shape.layers).map(make).collect::<Result<_>>()?;
        }
        Ok(layers[layer].clone())
    }

    /// See [`super::memory::Memory::copy`].
    pub(super) fn copy(&self, from: BlockRow, to: BlockRow, rows: usize) -> std::result::Result<(), PoolFault> {
        let copy = |tensor: &Tensor| {
            let rows = tensor.narrow(0, from.slot(), rows)?.force_contiguous()?;
            tensor.slice_set(&rows, 0, to.slot())
        };
        let copied = (0..self.shape.layers).try_for_each(|layer| {
            let KeysAndValues { keys, values } = self.layer(layer)?;
            copy(&keys).and_then(|()| copy(&values))
        });
        copied.map_err(|fault| {
            tracing::error!("keys and values could not be copied: {fault}");
            PoolFault::Device
        })
    }
}
