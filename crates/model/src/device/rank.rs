//! What one rank does in a pass: its part of each layer, by tensor operations.

use candle_core::{DType, Result as Computed, Tensor};

use super::attention::Group;
use super::best::BestOfRows;
use super::collective::{Collective, sum};
use super::linear::{Map, NormLayer, padded};
use super::placement::Placement;
use super::weights::{DeviceModel, Layer, Mlp, Projection, Top};
use crate::config::Activation;
use crate::error::{ModelError, Result};
use crate::kv_cache::KeysAndValues;
use crate::model_info::ModelInfo;
use crate::pass::Keys;

/// A rank at work on a pass. The stream of rows is the same on all ranks.
pub(super) struct Rank<'a> {
    info: &'a ModelInfo,
    model: &'a DeviceModel,
    others: &'a dyn Collective,
    /// The stream in f32, with zeros after its rows: (rows, hidden), rows being a multiple of a bucket.
    x: Option<Tensor>,
    /// Rows of the stream.
    rows: usize,
    /// What the head made of them: (rows, tokens of this rank) in f32.
    said: Option<Tensor>,
    placed: Option<Placed>,
}

/// Where rows stand.
struct Placed {
    placement: Placement,
    /// Cosine and sine of each row's rotation: (rows, 1, rotary_dim / 2).
    rotation: [Tensor; 2],
}

impl<'a> Rank<'a> {
    /// A rank before it has rows.
    pub(super) fn new(info: &'a ModelInfo, model: &'a DeviceModel, others: &'a dyn Collective) -> Self {
        Self { info, model, others, x: None, rows: 0, said: None, placed: None }
    }

    /// Whether it answers for all.
    pub(super) fn is_first(&self) -> bool {
        self.model.place.shard.is_first()
    }

    /// Waits until all it was told has been done.
    pub(super) fn finish(&self) -> Result<()> {
        Ok(self.model.place.device.synchronize()?)
    }

    /// See [`crate::pass::Pass::embed`]. Each rank looks up its own tokens; those of others are zeros to it.
    pub(super) fn embed(&mut self, tokens: &[u32]) -> Result<()> {
        let own = self.model.place.shard.tokens(&self.info.config);
        let is_own: Vec<f32> = tokens.iter().map(|token| f32::from(own.contains(&(*token as usize)))).collect();
        let places: Vec<u32> = tokens
            .iter()
            .map(|token| if own.contains(&(*token as usize)) { token - own.start as u32 } else { 0 })
            .collect();
        let device = &self.model.place.device;
        let embedding = self.model.embedding.as_ref().ok_or_else(|| missing("a stage without an embedding"))?;
        let looked_up = embedding.index_select(&Tensor::new(places, device)?, 0)?.to_dtype(DType::F32)?;
        let is_own = Tensor::from_vec(is_own, (tokens.len(), 1), device)?;
        self.stream(&sum(self.others, &looked_up.broadcast_mul(&is_own)?)?)
    }

    /// See [`crate::pass::Pass::load`].
    pub(super) fn load(&mut self, states: &[f32]) -> Result<()> {
        let hidden = self.info.config.hidden;
        let rows = Tensor::from_slice(states, (states.len() / hidden, hidden), &self.model.place.device)?;
        self.stream(&rows)
    }

    /// See [`crate::pass::Pass::keep`].
    pub(super) fn keep(&mut self, rows: &[u32]) -> Result<()> {
        let kept = self.x()?.index_select(&Tensor::new(rows, &self.model.place.device)?, 0)?;
        self.stream(&kept)
    }

    /// See [`crate::pass::Pass::place`].
    pub(super) fn place(&mut self, placed: &[crate::placed::Placed]) -> Result<()> {
        let placement = Placement::new(placed, self.info.rotations.table());
        let Placement { turns, half, .. } = &placement;
        let upload =
            |turns: &Vec<f32>| Tensor::from_slice(turns, (turns.len() / half, 1, *half), &self.model.place.device);
        let rotation = [upload(&turns[0])?, upload(&turns[1])?];
        self.placed = Some(Placed { placement, rotation });
        Ok(())
    }

    /// See [`crate::pass::Pass::layer`].
    pub(super) fn layer(&mut self, index: usize) -> Result<()> {
        let layer = &self.model.layers[index];
        let normed = layer.input.norm.forward(self.x()?)?;
        self.store(layer, &layer.input, &normed, index)?;
        let attended = layer.output.forward(&self.attend(layer, &normed, index)?)?;
        let x = (self.x()? + &sum(self.others, &attended)?)?;
        // In a parallel layer the feed-forward reads the stream as it was before attention was added.
        let read = if self.info.config.parallel_residual { self.x()? } else { &x };
        let fed = self.feed_forward(&layer.mlp, &layer.post_norm.forward(read)?)?;
        self.x = Some((x + sum(self.others, &fed)?)?);
        Ok(())
    }

    /// See [`crate::pass::Pass::keys_and_values`].
    pub(super) fn keys_and_values(&mut self, index: usize, keys: Keys) -> Result<()> {
        let layer = &self.model.layers[index];
        let (by, index) = match (keys, &layer.states) {
            (Keys::OfStates, Some(by)) => (by, self.info.cache_layers() - 1),
            _ => (&layer.input, index),
        };
        let normed = by.norm.forward(self.x()?)?;
        self.store(layer, by, &normed, index)
    }

    /// The stream: (rows, hidden).
    pub(super) fn states(&self) -> Result<Tensor> {
        Ok(self.x()?.narrow(0, 0, self.rows)?)
    }

    /// Runs the head over the stream.
    pub(super) fn head(&mut self) -> Result<()> {
        let Top { norm, head } = self.model.top.as_ref().ok_or_else(|| missing("a stage without a head"))?;
        let said = head.forward(&norm.forward(self.x()?)?)?;
        self.said = Some(said.narrow(0, 0, self.rows)?);
        Ok(())
    }

    /// The logits of some of its rows: (rows, vocab).
    pub(super) fn logits(&self, rows: &[u32]) -> Result<Tensor> {
        let (config, own) = (&self.info.config, self.said_of(rows)?);
        // All ranks exchange as many.
        let missing = self.model.place.shard.tokens_each(config) - own.dim(1)?;
        let own = if missing > 0 { own.pad_with_zeros(1, 0, missing)? } else { own };
        Ok(Tensor::cat(&self.others.gather(&own)?, 1)?.narrow(1, 0, config.vocab)?)
    }

    /// What all ranks say of the best tokens of some of its rows, side by side.
    pub(super) fn best(&self, wanted: &BestOfRows) -> Result<Tensor> {
        let first = self.model.place.shard.tokens(&self.info.config).start;
        let own = wanted.say(&self.said_of(&wanted.rows)?, first)?;
        Ok(Tensor::cat(&self.others.gather(&own)?, 1)?)
    }

    /// What the head made of some rows, rising: (rows, tokens of this rank).
    fn said_of(&self, rows: &[u32]) -> Computed<Tensor> {
        let said = self.said.as_ref().ok_or_else(|| missing("the head has not run"))?;
        if rows.len() == self.rows {
            return Ok(said.clone());
        }
        said.force_contiguous()?.index_select(&Tensor::new(rows, &self.model.place.device)?, 0)
    }

    fn stream(&mut self, rows: &Tensor) -> Result<()> {
        self.rows = rows.dim(0)?;
        self.x = Some(padded(rows)?);
        Ok(())
    }

    fn x(&self) -> Computed<&Tensor> {
        self.x.as_ref().ok_or_else(|| missing("a pass has no rows yet"))
    }

    fn placed(&self) -> Computed<&Placed> {
        self.placed.as_ref().ok_or_else(|| missing("rows stand nowhere yet"))
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
        let [cos, sin] = &self.placed()?.rotation;
        let (rotary_dim, head_dim) = (self.info.rotations.table().rotary_dim, heads.dim(2)?);
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
        for group in &self.placed()?.placement.groups {
            let rows = |tensor: &Tensor| tensor.narrow(0, group.first_row, group.rows());
            group.store(&self.memory(group, index)?, &rows(&keys)?, &rows(&values)?)?;
        }
        Ok(())
    }

    /// What attention makes of all rows: (rows, heads * head_dim).
    fn attend(&self, layer: &Layer, normed: &Tensor, index: usize) -> Result<Tensor> {
        let shape = &layer.attention;
        let queries = layer.input.queries.as_ref().ok_or_else(|| missing("a layer without queries"))?;
        let queries = self.heads(queries, normed, layer.qk_norm.as_ref().map(|norms| &norms.0))?;
        let queries = (queries * (1.0 / (shape.head_dim as f64).sqrt()))?;
        let groups = &self.placed()?.placement.groups;
        let mut attended = Vec::with_capacity(groups.len());
        for group in groups {
            let queries = queries.narrow(0, group.first_row, group.rows())?;
            let last = self.info.cache_layers() - 1;
            let beside = layer.states.is_some().then(|| self.memory(group, last)).transpose()?;
            let tokens = self.memory(group, index)?;
            attended.push(group.attend(shape, &queries, [Some(&tokens), beside.as_ref()])?);
        }
        Ok(padded(&Tensor::cat(&attended, 0)?)?)
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

    /// The keys and values of a layer that a group's rows are in.
    fn memory(&self, group: &Group, layer: usize) -> Result<KeysAndValues> {
        group.blocks.on_device(self.model.place.rank, layer)?.ok_or(ModelError::CacheElsewhere)
    }
}

/// What is said where something is asked for that is not there.
fn missing(what: &str) -> candle_core::Error {
    candle_core::Error::Msg(what.to_owned())
}
