//! Where the positions of a batch are, and who sees whom.

use candle_core::{DType, Device, Tensor};
use espalier_model::RotaryTable;

use crate::data::Batch;
use crate::error::Result;

/// What all layers of one pass share.
#[derive(Debug)]
pub(crate) struct Geometry {
    /// The rotation of every position.
    pub(crate) rotation: Rotation,
    /// (batch, 1, length, keys): 0 where a position sees a key, minus infinity where it does not.
    pub(crate) mask: Tensor,
}

/// Cosine and sine of every position's angles, attention scale included.
#[derive(Debug)]
pub(crate) struct Rotation {
    /// (batch, 1, length, rotary_dim / 2)
    pub(crate) cos: Tensor,
    /// (batch, 1, length, rotary_dim / 2)
    pub(crate) sin: Tensor,
}

impl Geometry {
    /// Every text seen on its own, each position seeing those up to itself.
    pub(crate) fn causal(batch: &Batch, rotary: &RotaryTable, dtype: DType, device: &Device) -> Result<Self> {
        let rotation = Rotation::new(batch, rotary, dtype, device)?;
        Ok(Self { rotation, mask: batch.causal_mask(dtype, device)? })
    }
}

impl Rotation {
    /// The rotations of a batch, every text beginning at position 0.
    pub(crate) fn new(batch: &Batch, rotary: &RotaryTable, dtype: DType, device: &Device) -> Result<Self> {
        let half = rotary.inv_freq.len();
        // Rows share their positions, so the angles of one are those of all.
        let (mut cos, mut sin) = (vec![0.0; batch.length() * half], vec![0.0; batch.length() * half]);
        let angles = cos.chunks_exact_mut(half).zip(sin.chunks_exact_mut(half));
        angles.enumerate().for_each(|(position, (cos, sin))| rotary.write(position, cos, sin));
        let positions = batch.positions();
        let tensor = |of_positions: &[f32]| -> Result<Tensor> {
            let values = positions.iter().flat_map(|position| &of_positions[position * half..][..half]);
            let shape = (batch.rows(), 1, batch.length(), half);
            Ok(Tensor::from_iter(values.copied(), device)?.reshape(shape)?.to_dtype(dtype)?)
        };
        Ok(Self { cos: tensor(&cos)?, sin: tensor(&sin)? })
    }
}
