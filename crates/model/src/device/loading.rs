//! What is read of a model goes to the device part by part.

use candle_core::{DType, Tensor};

use super::linear::{Map, NormLayer};
use super::rank_place::RankPlace;
use super::shard::LinearPart;
use super::weights::{DeviceModel, Layer, Mlp, Projection, Top};
use crate::arithmetic::Arithmetic;
use crate::attention::AttentionShape;
use crate::config::ModelConfig;
use crate::error::{ModelError, Result};
use crate::raw_matrix::RawMatrix;
use crate::raw_model::{RawLayer, RawLinear, RawMlp, RawNorm};
use crate::raw_parts::{RawStage, RawTop};

/// Where the tensors of a rank go, as what, and which parts of them.
struct Upload<'a> {
    config: &'a ModelConfig,
    dtype: DType,
    place: &'a RankPlace,
}

/// What matrices, keys and values are kept in.
///
/// # Errors
/// An arithmetic that devices do not have.
pub(super) fn dtype(arithmetic: Arithmetic) -> Result<DType> {
    match arithmetic {
        Arithmetic::F32 => Ok(DType::F32),
        Arithmetic::Bf16 => Ok(DType::BF16),
        _ => Err(ModelError::NotOnDevices { arithmetic }),
    }
}

impl DeviceModel {
    /// Loads a stage for all its ranks, part by part; `progress` is told `(layers loaded, layers of the stage)`.
    ///
    /// # Errors
    /// What is wrong with the model, or a device's.
    pub(super) fn load(
        config: &ModelConfig,
        raw: &RawStage<'_>,
        dtype: DType,
        places: &[RankPlace],
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Self>> {
        let uploads: Vec<Upload<'_>> = places.iter().map(|place| Upload { config, dtype, place }).collect();
        let (embedding, top) = (raw.embedding()?, raw.top()?);
        let ends = |upload: &Upload<'_>| upload.ends(embedding.as_ref(), top.as_ref());
        let mut models: Vec<Self> = uploads.iter().map(ends).collect::<Result<_>>()?;
        for i in 0..raw.layers() {
            let layer = raw.layer(i)?;
            for (model, upload) in models.iter_mut().zip(&uploads) {
                model.layers.push(upload.layer(&layer, i)?);
            }
            progress(i + 1, raw.layers());
        }
        Ok(models)
    }
}

impl Upload<'_> {
    /// A model without its layers.
    fn ends(&self, embedding: Option<&RawMatrix>, top: Option<&RawTop>) -> Result<DeviceModel> {
        let tokens = self.place.shard.tokens(self.config);
        let part = |embedding: &RawMatrix| embedding.part(tokens.clone(), 0..embedding.inputs());
        let embedding = embedding.map(|embedding| self.tensor(&part(embedding)?, self.dtype)).transpose()?;
        let top = top.map(|top| self.top(top, embedding.as_ref())).transpose()?;
        Ok(DeviceModel { place: self.place.clone(), embedding, layers: Vec::new(), top })
    }

    /// Norm and head; a head that is the embedding is that of the rank, where it has it.
    fn top(&self, raw: &RawTop, embedding: Option<&Tensor>) -> Result<Top> {
        let head = match embedding.filter(|_| raw.is_tied) {
            Some(embedding) => Map { weight: embedding.clone(), bias: None },
            None => {
                let shard = self.place.shard;
                self.map(shard.with_outputs(&raw.head, shard.tokens(self.config)))?
            }
        };
        Ok(Top { norm: self.norm(&raw.norm)?, head })
    }

    fn tensor(&self, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
        Ok(tensor.to_device(&self.place.device)?.to_dtype(dtype)?.contiguous()?)
    }

    fn map(&self, part: LinearPart<'_>) -> Result<Map> {
        let bias = part.bias()?.map(|bias| self.tensor(&bias, DType::F32)).transpose()?;
        let weight = part.map.weight.part(part.outputs, part.inputs)?;
        Ok(Map { weight: self.tensor(&weight, self.dtype)?, bias })
    }

    fn norm(&self, raw: &RawNorm) -> Result<NormLayer> {
        let bias = raw.bias.as_ref().map(|bias| self.tensor(bias, DType::F32)).transpose()?;
        Ok(NormLayer { kind: self.config.norm, weight: self.tensor(&raw.weight, DType::F32)?, bias })
    }

    fn head_norm(&self, weight: &Option<Tensor>) -> Result<Option<NormLayer>> {
        let Some(weight) = weight else { return Ok(None) };
        Ok(Some(NormLayer { kind: self.config.norm, weight: self.tensor(weight, DType::F32)?, bias: None }))
    }

    fn layer(&self, raw: &RawLayer, layer: usize) -> Result<Layer> {
        let (shard, config) = (self.place.shard, self.config);
        let (heads, kv_heads) = (shard.heads(config), shard.kv_heads(config));
        let queries = self.map(shard.with_outputs(&raw.q, shard.query_dims(config)))?;
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
            output: self.map(shard.with_inputs(&raw.o, shard.query_dims(config)))?,
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
        let shard = self.place.shard;
        let part = |raw| self.map(shard.with_outputs(raw, shard.kv_dims(self.config)));
        Ok([part(raw[0])?, part(raw[1])?])
    }

    fn mlp(&self, raw: &RawMlp) -> Result<Mlp> {
        let shard = self.place.shard;
        let inner = shard.inner(self.config);
        let into = |raw| self.map(shard.with_outputs(raw, inner.clone()));
        let out_of = |raw| self.map(shard.with_inputs(raw, inner.clone()));
        Ok(match raw {
            RawMlp::Gated { gate, up, down } => Mlp::Gated { gate: into(gate)?, up: into(up)?, down: out_of(down)? },
            RawMlp::Plain { up, down } => Mlp::Plain { up: into(up)?, down: out_of(down)? },
        })
    }
}
