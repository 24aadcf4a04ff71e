//! What is read of a model goes to the device part by part.

use candle_core::{DType, Device, Tensor};

use super::linear::{Map, NormLayer};
use super::{DeviceModel, Layer, Mlp, Projection};
use crate::arithmetic::Arithmetic;
use crate::attention::AttentionShape;
use crate::config::{ModelConfig, Norm};
use crate::error::{ModelError, Result};
use crate::raw_model::{RawLayer, RawLinear, RawMlp, RawNorm};
use crate::raw_parts::RawParts;

/// Where tensors go, and as what.
#[derive(Clone, Copy)]
pub(crate) struct Upload<'a> {
    device: &'a Device,
    dtype: DType,
}

impl DeviceModel {
    /// Loads a model; `progress` is told `(layers loaded, layers in all)`.
    pub(crate) fn load(
        config: &ModelConfig,
        raw: &RawParts,
        upload: Upload<'_>,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self> {
        let embedding = upload.tensor(&raw.embedding()?.to_tensor()?)?;
        let head = match raw.head()? {
            Some(head) => upload.map(&head)?,
            None => Map { weight: embedding.clone(), bias: None },
        };
        let mut layers = Vec::with_capacity(raw.layers());
        for i in 0..raw.layers() {
            layers.push(upload.layer(&raw.layer(i)?, config, i)?);
            progress(i + 1, raw.layers());
        }
        let final_norm = upload.norm(&raw.final_norm()?, config.norm)?;
        Ok(Self { device: upload.device.clone(), dtype: upload.dtype, embedding, layers, final_norm, head })
    }
}

impl<'a> Upload<'a> {
    /// What a model in such an arithmetic takes.
    ///
    /// # Errors
    /// An arithmetic that devices do not have.
    pub(crate) fn new(device: &'a Device, arithmetic: Arithmetic) -> Result<Self> {
        match arithmetic {
            Arithmetic::F32 => Ok(Self { device, dtype: DType::F32 }),
            _ => Err(ModelError::NotOnDevices { arithmetic }),
        }
    }

    fn tensor(&self, tensor: &Tensor) -> Result<Tensor> {
        Ok(tensor.to_device(self.device)?.to_dtype(self.dtype)?.contiguous()?)
    }

    fn map(&self, raw: &RawLinear) -> Result<Map> {
        let bias = raw.bias.as_ref().map(|bias| self.tensor(bias)).transpose()?;
        Ok(Map { weight: self.tensor(&raw.weight.to_tensor()?)?, bias })
    }

    fn norm(&self, raw: &RawNorm, kind: Norm) -> Result<NormLayer> {
        let bias = raw.bias.as_ref().map(|bias| self.tensor(bias)).transpose()?;
        Ok(NormLayer { kind, weight: self.tensor(&raw.weight)?, bias })
    }

    fn head_norm(&self, weight: &Option<Tensor>, kind: Norm) -> Result<Option<NormLayer>> {
        let Some(weight) = weight else { return Ok(None) };
        Ok(Some(NormLayer { kind, weight: self.tensor(weight)?, bias: None }))
    }

    fn layer(&self, raw: &RawLayer, config: &ModelConfig, layer: usize) -> Result<Layer> {
        let input = Projection {
            norm: self.norm(&raw.input_norm, config.norm)?,
            queries: Some(self.map(&raw.q)?),
            keys: self.map(&raw.k)?,
            values: self.map(&raw.v)?,
        };
        let states = raw.states.as_ref().map(|states| {
            let (norm, keys, values) =
                (self.norm(&states.norm, config.norm)?, self.map(&states.k)?, self.map(&states.v)?);
            Ok::<_, ModelError>(Projection { norm, queries: None, keys, values })
        });
        let mlp = match &raw.mlp {
            RawMlp::Gated { gate, up, down } => {
                Mlp::Gated { gate: self.map(gate)?, up: self.map(up)?, down: self.map(down)? }
            }
            RawMlp::Plain { up, down } => Mlp::Plain { up: self.map(up)?, down: self.map(down)? },
        };
        Ok(Layer {
            input,
            states: states.transpose()?,
            qk_norm: self.head_norm(&raw.q_norm, config.norm)?.zip(self.head_norm(&raw.k_norm, config.norm)?),
            output: self.map(&raw.o)?,
            post_norm: self.norm(&raw.post_norm, config.norm)?,
            mlp,
            attention: AttentionShape {
                heads: config.heads,
                kv_heads: config.kv_heads,
                head_dim: config.head_dim,
                window: config.windows.get(layer).copied().flatten(),
            },
        })
    }
}
