//! Where devices keep keys and values.

use candle_core::{DType, Device};

/// Where devices keep keys and values.
#[derive(Clone)]
pub(crate) struct DevicePlace {
    /// Each keeps as many heads.
    pub(crate) devices: Vec<Device>,
    /// What numbers they are kept as.
    pub(crate) dtype: DType,
    /// Whether rows are moved by the next pass, not at once.
    pub(crate) moves_later: bool,
}
