//! Where devices keep keys and values.

use candle_core::{DType, Device};

/// Where devices keep keys and values.
#[derive(Clone)]
pub(crate) struct DevicePlace {
    /// In the order of ranks, stage after stage.
    pub(crate) parts: Vec<DevicePart>,
    /// What numbers they are kept as.
    pub(crate) dtype: DType,
    /// Whether rows are moved by the next pass, not at once.
    pub(crate) moves_later: bool,
}

/// What a device keeps of each block.
#[derive(Clone)]
pub(crate) struct DevicePart {
    pub(crate) device: Device,
    pub(crate) layers: usize,
    /// In each of them.
    pub(crate) kv_heads: usize,
}

impl DevicePart {
    /// Heads in all layers: what it keeps is to what others keep as these are to theirs.
    pub(crate) fn heads(&self) -> usize {
        self.layers * self.kv_heads
    }
}
