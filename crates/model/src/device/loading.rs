//! What is read of a model goes to the device part by part.

use std::ops::Range;

use candle_core::{DType, Device, Tensor};

use super::linear::{Map, NormLayer};
use super::shard::Shard;
use super::weights::{DeviceModel, Layer, Mlp, Projection};
use crate::arithmetic::Arithmetic;
use crate::attention::AttentionShape;
use crate::config::ModelConfig;
use crate::error::{ModelError, Result};
use crate::raw_matrix::RawMatrix;
use crate::raw_model::{RawLayer, RawLinear, RawMlp, RawNorm};
use crate::raw_parts::RawParts;

/// Where the tensors of a rank go, as what, and which parts of them.
pub(crate) struct Upload<'a> {
    config: &'a ModelConfig,
    device: Device,
    dtype: DType,
    shard: Shard,
}

/// What comes of a linear map on a rank.
enum Cut {
    /// These outputs of it.
    Outputs(Range<usize>),
    /// What these inputs of it add to all outputs.
    Inputs(Range<usize>),
}

impl DeviceModel {
    /// Loads a model for all its ranks, part by part; `progress` is told `(layers loaded, layers in all)`.
    pub(crate) fn load(
        raw: &RawParts,
        uploads: &[Upload<'_>],
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Self>> {
        let (embedding, head) = (raw.embedding()?, raw.head()?);
        let mut models: Vec<Self> =
            uploads.iter().map(|upload| upload.ends(raw, &embedding, head.as_ref())).collect::<Result<_>>()?;
        for i in 0..raw.layers() {
            let layer = raw.layer(i)?;
            for (model, upload) in models.iter_mut().zip(uploads) {
                model.layers.push(upload.layer(&layer, i)?);
            }
            progress(i + 1, raw.layers());
        }
        Ok(models)
    }
}

impl<'a> Upload<'a> {
    /// What a rank of a model in such an arithmetic takes.
    ///
    /// # Errors
    /// An arithmetic that devices do not have.
    pub(crate) fn new(config: &'a ModelConfig, arithmetic: Arithmetic, device: Device, shard: Shard) -> Result<Self> {
        let dtype = match arithmetic {
            Arithmetic::F32 => DType::F32,
            Arithmetic::Bf16 => DType::BF16,
            _ => return Err(ModelError::NotOnDevices { arithmetic }),
        };
        Ok(Self { config, device, dtype, shard })
    }

    /// What matrices, keys and values are kept in.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// A model before its layers.
    fn ends(&self, raw: &RawParts, embedding: &RawMatrix, head: Option<&RawLinear>) -> Result<DeviceModel> {
        let tokens = self.shard.tokens(self.config);
        let embedding = self.tensor(&embedding.part(tokens.clone(), 0..embedding.inputs())?, self.dtype)?;
        let head = match head {
            Some(head) => self.map(head, Cut::Outputs(tokens))?,
            None => Map { weight: embedding.clone(), bias: None },
        };
        Ok(DeviceModel {
            device: self.device.clone(),
            shard: self.shard,
            embedding,
            layers: Vec::with_capacity(raw.layers()),
            final_norm: self.norm(&raw.final_norm()?)?,
            head,
        })
    }

    fn tensor(&self, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
        Ok(tensor.to_device(&self.device)?.to_dtype(dtype)?.contiguous()?)
    }

    /// A rank's part of a linear map; a bias that belongs to a sum is the first rank's.
    fn map(&self, raw: &RawLinear, cut: Cut) -> Result<Map> {
        let (outputs, inputs) = (raw.weight.outputs(), raw.weight.inputs());
        let (outputs, inputs, has_bias) = match cut {
            Cut::Outputs(part) => (part, 0..inputs, true),
            Cut::Inputs(part) => (0..outputs, part, self.shard.is_first()),
        };
        let bias = raw.bias.as_ref().filter(|_| has_bias);
        let bias =
            bias.map(|bias| self.tensor(&bias.narrow(0, outputs.start, outputs.len())?, DType::F32)).transpose()?;
        Ok(Map { weight: self.tensor(&raw.weight.part(outputs, inputs)?, self.dtype)?, bias })
    }

    fn norm(&self, raw: &RawNorm) -> Result<NormLayer> {
        let bias = raw.bias.as_ref().map(|bias| self.tensor(bias, DType::F32)).transpose()?;
        Ok(NormLayer { kind: self.config.norm, weight: self.tensor(&raw.weight, DType::F32)?, bias })
    }

    fn head_norm(&self, weight: &Option<Tensor>) -> Result<Option<NormLayer>> {
        let Some(weight) = weight else { return Ok(None) };
        Ok(Some(NormLayer { kind: self.config.norm, weight: self.tensor(weight, DType::F32)?, bias: None }))
    }

    /// What queries of a rank's heads are in all heads', side by side; or keys, or values.
    fn dims(&self, heads: Range<usize>) -> Range<usize> {
        let head_dim = self.config.head_dim;
        heads.start * head_dim..heads.end * head_dim
    }

    fn layer(&self, raw: &RawLayer, layer: usize) -> Result<Layer> {
        let (shard, config) = (self.shard, self.config);
        let (heads, kv_heads) = (shard.heads(config), shard.kv_heads(config));
        let queries = self.map(&raw.q, Cut::Outputs(self.dims(heads.clone())))?;
        let [keys, values] = self.keys_and_values([&raw.k, &raw.v])?;
        let input = Projection { norm: self.norm(&raw.input_norm)?, queries: Some(queries), keys, values };
        let states = raw.states.as_ref().map(|states| {
            let [keys, values] = self.keys_and_values([&states.k, &states.v])?;
            Ok::<_, ModelError>(Projection { norm: self.norm(&states.norm)?, queries: None, keys, values })
        });
        Ok(Layer {
            input,
            states: states.transpose()?,
            qk_norm: self.head_norm(&raw.q_norm)?.zip(self.head_norm(&raw.k_norm)?),
            output: self.map(&raw.o, Cut::Inputs(self.dims(heads.clone())))?,
            post_norm: self.norm(&raw.post_norm)?,
            mlp: self.mlp(&raw.mlp)?,
            attention: AttentionShape {
                heads: heads.len(),
                kv_heads: kv_heads.len(),
                head_dim: config.head_dim,
                window: config.windows.get(layer).copied().flatten(),
            },
        })
    }

    fn keys_and_values(&self, raw: [&RawLinear; 2]) -> Result<[Map; 2]> {
        let part = self.dims(self.shard.kv_heads(self.config));
        Ok([self.map(raw[0], Cut::Outputs(part.clone()))?, self.map(raw[1], Cut::Outputs(part))?])
    }

    fn mlp(&self, raw: &RawMlp) -> Result<Mlp> {
        let inner = self.shard.inner(self.config);
        let into = |raw| self.map(raw, Cut::Outputs(inner.clone()));
        let out_of = |raw| self.map(raw, Cut::Inputs(inner.clone()));
        Ok(match raw {
            RawMlp::Gated { gate, up, down } => Mlp::Gated { gate: into(gate)?, up: into(up)?, down: out_of(down)? },
            RawMlp::Plain { up, down } => Mlp::Plain { up: into(up)?, down: out_of(down)? },
        })
    }
}
