//! A pass on a device.

use std::time::Duration;

use candle_core::{DType, Result as Computed, Tensor};

use super::attention::Group;
use super::linear::{Map, NormLayer, bucketed, padded};
use super::{DeviceModel, Layer, Mlp, Projection};
use crate::config::Activation;
use crate::error::{ModelError, Result};
use crate::kv_cache::KeysAndValues;
use crate::model_info::ModelInfo;
use crate::pass::{Keys, Pass, Results};
use crate::placed::Placed;
use crate::workspace::Workspace;

/// A pass at work.
pub(crate) struct DevicePass<'a> {
    info: &'a ModelInfo,
    model: &'a DeviceModel,
    results: &'a mut Results,
    /// The stream, with zeros after its rows.
    x: Option<Tensor>,
    /// Rows of the stream.
    rows: usize,
    /// The same on the host, when it was asked for.
    states: Vec<f32>,
    groups: Vec<Group>,
    /// Cosine and sine of each row's rotation: (rows, 1, rotary_dim / 2).
    rotation: Option<[Tensor; 2]>,
}

impl Pass for DevicePass<'_> {
    fn embed(&mut self, tokens: &[u32]) -> Result<()> {
        tokens.iter().try_for_each(|token| self.info.check_token(*token))?;
        let tokens_on_device = Tensor::new(tokens, &self.model.device)?;
        self.stream(&self.model.embedding.index_select(&tokens_on_device, 0)?)
    }

    fn load(&mut self, states: &[f32]) -> Result<()> {
        let hidden = self.info.config.hidden;
        let rows = Tensor::from_slice(states, (states.len() / hidden, hidden), &self.model.device)?;
        self.stream(&rows.to_dtype(self.model.dtype)?)
    }

    fn keep(&mut self, rows: &[usize]) -> Result<()> {
        let rows: Vec<u32> = rows.iter().map(|row| *row as u32).collect();
        let rows_on_device = Tensor::new(&rows[..], &self.model.device)?;
        let kept = self.x()?.index_select(&rows_on_device, 0)?;
        self.stream(&kept)
    }

    fn place(&mut self, placed: &[Placed]) -> Result<()> {
        let rotary = &self.info.rotary;
        let half = rotary.rotary_dim / 2;
        let rows = bucketed(placed.iter().map(Placed::rows).sum());
        let (mut cos, mut sin) = (vec![0.0; rows * half], vec![0.0; rows * half]);
        let turns = cos.chunks_exact_mut(half).zip(sin.chunks_exact_mut(half));
        for (position, (cos, sin)) in placed.iter().flat_map(Placed::positions).zip(turns) {
            rotary.write(position, cos, sin);
        }
        let upload = |turns| Tensor::from_vec(turns, (rows, 1, half), &self.model.device)?.to_dtype(self.model.dtype);
        self.rotation = Some([upload(cos)?, upload(sin)?]);
        self.groups = Group::all(placed);
        Ok(())
    }

    fn layer(&mut self, index: usize, _: &[Placed]) -> Result<()> {
        let layer = &self.model.layers[index];
        let normed = layer.input.norm.forward(self.x()?)?;
        self.store(layer, &layer.input, &normed, index)?;
        let attended = layer.output.forward(&self.attend(layer, &normed, index)?)?;
        let x = (self.x()? + &attended)?;
        // In a parallel layer the feed-forward reads the stream as it was before attention was added.
        let read = if self.info.config.parallel_residual { self.x()? } else { &x };
        let fed = self.feed_forward(&layer.mlp, &layer.post_norm.forward(read)?)?;
        self.x = Some((x + fed)?);
        Ok(())
    }

    fn keys_and_values(&mut self, index: usize, keys: Keys, _: &[Placed]) -> Result<()> {
        let layer = &self.model.layers[index];
        let (by, index) = match (keys, &layer.states) {
            (Keys::OfStates, Some(by)) => (by, self.info.cache_layers() - 1),
            _ => (&layer.input, index),
        };
        let normed = by.norm.forward(self.x()?)?;
        self.store(layer, by, &normed, index)
    }

    fn tap(&mut self, tap: usize) -> Result<()> {
        self.results.taps[tap] = self.download()?;
        Ok(())
    }

    fn states(&mut self) -> Result<&[f32]> {
        self.states = self.download()?;
        Ok(&self.states)
    }

    fn answer(&mut self, places: &[usize]) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        let vocab = self.info.config.vocab;
        let logits = self.model.head.forward(&self.model.final_norm.forward(self.x()?)?)?;
        let logits = logits.narrow(0, 0, self.rows)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        for (logits, place) in logits.chunks_exact(vocab).zip(places) {
            self.results.logits[place * vocab..][..vocab].copy_from_slice(logits);
        }
        Ok(())
    }

    fn results(&mut self) -> &mut Results {
        self.results
    }
}

impl DevicePass<'_> {
    /// A pass of a model, whose weights `model` has.
    pub(crate) fn new<'a>(info: &'a ModelInfo, model: &'a DeviceModel, work: &'a mut Workspace) -> DevicePass<'a> {
        work.waited = Duration::ZERO;
        let (x, rotation) = (None, None);
        DevicePass {
            info,
            model,
            results: &mut work.results,
            x,
            rows: 0,
            states: Vec::new(),
            groups: Vec::new(),
            rotation,
        }
    }

    fn stream(&mut self, rows: &Tensor) -> Result<()> {
        self.rows = rows.dim(0)?;
        self.x = Some(padded(rows)?);
        Ok(())
    }

    /// The stream: (rows, hidden), rows being a multiple of a bucket.
    fn x(&self) -> Computed<&Tensor> {
        self.x.as_ref().ok_or_else(|| candle_core::Error::Msg("a pass has no rows yet".to_owned()))
    }

    fn download(&self) -> Result<Vec<f32>> {
        Ok(self.x()?.narrow(0, 0, self.rows)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }

    /// (rows, heads, head_dim) of a linear map's result, normalised if the model does that, and rotated.
    fn heads(&self, map: &Map, normed: &Tensor, norm: Option<&NormLayer>) -> Computed<Tensor> {
        let head_dim = self.info.config.head_dim;
        let heads = map.forward(normed)?;
        let (rows, width) = heads.dims2()?;
        let heads = heads.reshape((rows, width / head_dim, head_dim))?;
        self.rotate(&norm.map_or(Ok(heads.clone()), |norm| norm.forward(&heads))?)
    }

    /// Rotates the first dimensions of heads: their first half against the second.
    fn rotate(&self, heads: &Tensor) -> Computed<Tensor> {
        let Some([cos, sin]) = &self.rotation else { return Ok(heads.clone()) };
        let (rotary_dim, head_dim) = (self.info.rotary.rotary_dim, heads.dim(2)?);
        let half = rotary_dim / 2;
        let (first, second) = (heads.narrow(2, 0, half)?, heads.narrow(2, half, half)?);
        let turned = (first.broadcast_mul(cos)? - second.broadcast_mul(sin)?)?;
        let other = (second.broadcast_mul(cos)? + first.broadcast_mul(sin)?)?;
        let rest = (rotary_dim < head_dim).then(|| heads.narrow(2, rotary_dim, head_dim - rotary_dim)).transpose()?;
        Tensor::cat(&[Some(turned), Some(other), rest].into_iter().flatten().collect::<Vec<_>>(), 2)
    }

    /// Stores the keys and values of all rows.
    fn store(&self, layer: &Layer, by: &Projection, normed: &Tensor, index: usize) -> Result<()> {
        let keys = self.heads(&by.keys, normed, layer.qk_norm.as_ref().map(|norms| &norms.1))?;
        let values = by.values.forward(normed)?.reshape(keys.shape())?;
        for group in &self.groups {
            let rows = |tensor: &Tensor| tensor.narrow(0, group.first_row, group.rows());
            group.store(&memory(group, index)?, &rows(&keys)?, &rows(&values)?)?;
        }
        Ok(())
    }

    /// What attention makes of all rows: (rows, heads * head_dim).
    fn attend(&self, layer: &Layer, normed: &Tensor, index: usize) -> Result<Tensor> {
        let shape = &layer.attention;
        let Some(queries) = &layer.input.queries else {
            return Err(candle_core::Error::Msg("a layer without queries".to_owned()).into());
        };
        let queries = self.heads(queries, normed, layer.qk_norm.as_ref().map(|norms| &norms.0))?;
        let queries = (queries * (1.0 / (shape.head_dim as f64).sqrt()))?;
        let mut attended = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let queries = queries.narrow(0, group.first_row, group.rows())?;
            let beside = layer.states.is_some().then(|| memory(group, self.info.cache_layers() - 1)).transpose()?;
            let tokens = memory(group, index)?;
            attended.push(group.attend(shape, &queries, [Some(&tokens), beside.as_ref()])?);
        }
        Ok(padded(&Tensor::cat(&attended, 0)?.to_dtype(self.model.dtype)?)?)
    }

    fn feed_forward(&self, mlp: &Mlp, x: &Tensor) -> Computed<Tensor> {
        let activation = |x: Tensor| match self.info.config.activation {
            Activation::Silu => x.silu(),
            Activation::Gelu => x.gelu_erf(),
            Activation::GeluTanh => x.gelu(),
            Activation::Relu => x.relu(),
        };
        match mlp {
            Mlp::Gated { gate, up, down } => down.forward(&(activation(gate.forward(x)?)? * up.forward(x)?)?),
            Mlp::Plain { up, down } => down.forward(&activation(up.forward(x)?)?),
        }
    }
}

/// The keys and values of a layer that a group's rows are in.
fn memory(group: &Group, layer: usize) -> Result<KeysAndValues> {
    group.blocks.on_device(layer)?.ok_or(ModelError::CacheElsewhere)
}
