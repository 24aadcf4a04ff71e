//! What to load of a model, and how.

use crate::arithmetic::{Arithmetic, WeightFormat};
use crate::device_kind::DeviceKind;
use crate::parallel::Parallel;

/// What to load of a checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Only the first layers, under the checkpoint's own final norm and head; all when none.
    pub layers: Option<usize>,
    /// How matrices are held in f32 arithmetic.
    pub format: WeightFormat,
    /// What they are multiplied in.
    pub arithmetic: Arithmetic,
    /// Where.
    pub device: DeviceKind,
    /// Over how many of them.
    pub parallel: Parallel,
}
