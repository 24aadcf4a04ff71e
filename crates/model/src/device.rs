//! A model on a device of candle's: the same pass, composed of tensor operations, so it runs wherever candle does.
//!
//! A row's bits depend on nothing but its own inputs here too. Products have a fixed number of rows, [`BUCKET`], so that
//! their algorithm does not depend on how many share a pass; attention goes over positions in tiles of a fixed size, in
//! their order, for each row by itself.

mod attention;
mod linear;
mod loading;
mod pass;

use candle_core::{DType, Device, Tensor};

use crate::attention::AttentionShape;
use crate::device_kind::DeviceKind;
use crate::error::{ModelError, Result};
use linear::{Map, NormLayer};
pub(crate) use loading::Upload;
pub(crate) use pass::DevicePass;

/// Weights on a device.
pub(crate) struct DeviceModel {
    device: Device,
    /// What weights and the stream are kept in.
    dtype: DType,
    /// (vocab, hidden)
    embedding: Tensor,
    layers: Vec<Layer>,
    final_norm: NormLayer,
    head: Map,
}

/// One block.
struct Layer {
    input: Projection,
    /// Of another model's hidden states, where they are keys and values beside those of tokens.
    states: Option<Projection>,
    qk_norm: Option<(NormLayer, NormLayer)>,
    output: Map,
    post_norm: NormLayer,
    mlp: Mlp,
    attention: AttentionShape,
}

/// What rows go through before attention.
struct Projection {
    norm: NormLayer,
    /// None where only keys and values are wanted of its input.
    queries: Option<Map>,
    keys: Map,
    values: Map,
}

/// The feed-forward part.
enum Mlp {
    /// `down(act(gate(x)) * up(x))`.
    Gated { gate: Map, up: Map, down: Map },
    /// `down(act(up(x)))`.
    Plain { up: Map, down: Map },
}

/// Opens a device of candle's; none if the processor is to be used with kernels of our own.
///
/// # Errors
/// A device that the program was not built for, or that the machine does not have.
pub(crate) fn open(kind: DeviceKind) -> Result<Option<Device>> {
    match kind {
        DeviceKind::Cpu => Ok(None),
        DeviceKind::Candle => Ok(Some(Device::Cpu)),
        DeviceKind::Cuda(number) if cfg!(feature = "cuda") => Ok(Some(Device::new_cuda(number)?)),
        DeviceKind::Cuda(_) => Err(ModelError::NotBuiltFor { device: kind }),
    }
}

impl DeviceModel {
    /// The kind of its device.
    pub(crate) fn kind(&self) -> &'static str {
        match self.device {
            Device::Cpu => "candle",
            Device::Cuda(_) => "cuda",
            Device::Metal(_) => "metal",
        }
    }

    /// Where it is.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// What keys and values are kept in.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Bytes of weights that one pass reads, whatever its number of rows.
    pub(crate) fn bytes(&self) -> usize {
        self.multiply_adds() * self.dtype.size_in_bytes()
    }

    /// Multiply-adds of one row with weights.
    pub(crate) fn multiply_adds(&self) -> usize {
        self.layers.iter().flat_map(Layer::maps).chain([&self.head]).map(Map::multiply_adds).sum()
    }
}

impl Layer {
    fn maps(&self) -> Vec<&Map> {
        let Projection { queries, keys, values, .. } = &self.input;
        let mut maps = vec![keys, values, &self.output];
        maps.extend(queries);
        match &self.mlp {
            Mlp::Gated { gate, up, down } => maps.extend([gate, up, down]),
            Mlp::Plain { up, down } => maps.extend([up, down]),
        }
        maps
    }
}
