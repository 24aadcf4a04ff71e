//! A whole model, or its first layers.

use std::ops::Range;

use candle_core::Tensor;
use espalier_model::{ModelConfig, NormKind, RotaryTable};

use super::geometry::Geometry;
use super::head::Head;
use super::layer::Layer;
use super::params::{Params, Scope, Start};
use crate::data::Batch;
use crate::error::{Result, TrainError};

const EMBEDDING: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";

/// How the names of a layer's tensors begin.
pub(crate) fn layer_prefix(layer: usize) -> String {
    format!("model.layers.{layer}.")
}

/// The embedding of `scope` and the matrix of its head, which are one where the model is tied: each (vocab, hidden).
pub(crate) fn embedding_and_head(config: &ModelConfig, scope: &mut Scope<'_>) -> Result<(Tensor, Tensor)> {
    let shape = [config.vocab, config.hidden];
    let embedding = scope.tensor(EMBEDDING, &shape)?;
    let head = if config.tied { embedding.clone() } else { scope.tensor(HEAD, &shape)? };
    Ok((embedding, head))
}

/// A matrix for the head alone, beginning as the embedding where the model is tied: (vocab, hidden).
pub(crate) fn head_alone(config: &ModelConfig, scope: &mut Scope<'_>) -> Result<Tensor> {
    let source = if config.tied { EMBEDDING } else { HEAD };
    scope.tensor_from(HEAD, source, &[config.vocab, config.hidden])
}

/// (batch, length) tokens of (vocab, hidden) embeddings -> (batch, length, hidden)
pub(crate) fn embed(embedding: &Tensor, batch: &Batch) -> Result<Tensor> {
    let tokens = batch.token_tensor(embedding.device())?.flatten_all()?;
    Ok(embedding.index_select(&tokens, 0)?.reshape((batch.rows(), batch.length(), ()))?)
}

/// Embedding, layers, norm and head.
#[derive(Debug)]
pub(crate) struct Llama {
    embedding: Tensor,
    layers: Vec<Layer>,
    head: Head,
    rotary: RotaryTable,
}

impl Llama {
    /// The first `layers` layers of a model, its norm and its head, all of them trained.
    pub(crate) fn build(config: &ModelConfig, layers: usize, params: &mut Params, start: Start<'_>) -> Result<Self> {
        check_family(config)?;
        let mut outer = Scope::new(params, "", start);
        let (embedding, weight) = embedding_and_head(config, &mut outer)?;
        let head = Head::build(config, &mut outer, weight)?;
        let build = |layer| Layer::build(config, &mut Scope::new(params, layer_prefix(layer), start));
        let layers = (0..layers).map(build).collect::<Result<_>>()?;
        Ok(Self { embedding, layers, head, rotary: RotaryTable::new(config) })
    }

    /// The logits after each of `exits` (layers counted from 1, rising), all through the same norm and head; each
    /// (batch * length, vocab).
    pub(crate) fn logits_at(&self, batch: &Batch, exits: &[usize]) -> Result<Vec<Tensor>> {
        let Passage { mut x, geometry } = self.begin(batch)?;
        let mut done = 0;
        let mut logits = Vec::with_capacity(exits.len());
        for &exit in exits {
            x = self.run(x, done..exit, &geometry)?;
            logits.push(self.head.logits(&x)?);
            done = exit;
        }
        Ok(logits)
    }

    /// The residual stream after layer `layer` (from 1): (batch, length, hidden).
    pub(crate) fn states(&self, batch: &Batch, layer: usize) -> Result<Tensor> {
        let Passage { x, geometry } = self.begin(batch)?;
        self.run(x, 0..layer, &geometry)
    }

    /// The same, and the logits after the last layer.
    pub(crate) fn states_and_logits(&self, batch: &Batch, layer: usize) -> Result<Tapped> {
        let Passage { x, geometry } = self.begin(batch)?;
        let states = self.run(x, 0..layer, &geometry)?;
        let last = self.run(states.clone(), layer..self.layers.len(), &geometry)?;
        Ok(Tapped { states, logits: self.head.logits(&last)? })
    }

    fn begin(&self, batch: &Batch) -> Result<Passage> {
        let x = embed(&self.embedding, batch)?;
        let geometry = Geometry::causal(batch, &self.rotary, x.dtype(), x.device())?;
        Ok(Passage { x, geometry })
    }

    fn run(&self, x: Tensor, layers: Range<usize>, geometry: &Geometry) -> Result<Tensor> {
        self.layers[layers].iter().try_fold(x, |x, layer| layer.forward(&x, geometry))
    }
}

/// A batch on its way through the layers.
struct Passage {
    /// (batch, length, hidden)
    x: Tensor,
    geometry: Geometry,
}

/// What a model says of a batch, and what it thought on the way.
#[derive(Debug)]
pub(crate) struct Tapped {
    /// (batch, length, hidden): the residual stream after the tapped layer.
    pub(crate) states: Tensor,
    /// (batch * length, vocab)
    pub(crate) logits: Tensor,
}

/// Refuses what is not of the Llama family.
pub(crate) fn check_family(config: &ModelConfig) -> Result<()> {
    let foreign = [
        (config.norm.kind != NormKind::Rms, "LayerNorm"),
        (!config.gated_mlp, "a plain feed-forward"),
        (config.parallel_residual, "parallel attention and feed-forward"),
    ];
    match foreign.into_iter().find(|(is, _)| *is) {
        Some((_, what)) => Err(TrainError::Family { what }),
        None => Ok(()),
    }
}

/// Refuses rows that would outgrow the context or a sliding window: no mask of a window is built here.
pub(crate) fn check_length(config: &ModelConfig, length: usize) -> Result<()> {
    crate::error::in_range("the length of a row", length as f64, 1.0, config.context as f64)?;
    match config.windows.iter().flatten().min() {
        Some(&window) if window < length => Err(TrainError::Window { length, window }),
        _ => Ok(()),
    }
}
