//! A model's tensors part by part, so that no more of them need be in memory at once than one part has.

use crate::config::ModelConfig;
use crate::error::Result;
use crate::raw_matrix::RawMatrix;
use crate::raw_model::{RawLayer, RawLinear, RawNorm, RawStates, Reader, layers_asked};
use crate::weights::Weights;

/// Where the parts of a model are: each is read when it is asked for.
pub(crate) struct RawParts {
    /// What the embedding and the first layers are of.
    below: Part,
    /// So many of the first layers.
    layers: usize,
    /// What one more layer, the norm and the head are of, where that is another model.
    top: Option<Part>,
    /// Whether every layer has what another model's hidden states go through.
    states: bool,
}

/// A model that gives all of its tensors, or some.
pub(crate) struct Part {
    pub(crate) config: ModelConfig,
    pub(crate) weights: Weights,
}

impl Part {
    fn reader(&self) -> Reader<'_> {
        Reader { config: &self.config, weights: &self.weights }
    }

    fn layer(&self, layer: usize) -> Result<RawLayer> {
        RawLayer::load(&self.config, &self.weights, layer)
    }
}

impl RawParts {
    /// The parts of one model; `layers` cuts it to its first so many, its norm and head staying.
    pub(crate) fn new(model: Part, layers: Option<usize>) -> Result<Self> {
        let layers = layers_asked(&model.config, layers)?;
        Ok(Self { below: model, layers, top: None, states: false })
    }

    /// The embedding and the first `shared` layers of one model, and on top of them the first layer, the norm and the
    /// head of another.
    pub(crate) fn stacked(below: Part, shared: usize, top: Part) -> Self {
        Self { below, layers: shared, top: Some(top), states: false }
    }

    /// With what another model's hidden states go through in every layer.
    pub(crate) fn with_states(self, states: bool) -> Self {
        Self { states, ..self }
    }

    /// Whether every layer has what another model's hidden states go through.
    pub(crate) fn has_states(&self) -> bool {
        self.states
    }

    /// Layers in all.
    pub(crate) fn layers(&self) -> usize {
        self.layers + usize::from(self.top.is_some())
    }

    /// Reads a layer, counted from 0.
    pub(crate) fn layer(&self, layer: usize) -> Result<RawLayer> {
        let mut read = match &self.top {
            Some(top) if layer == self.layers => top.layer(0)?,
            _ => self.below.layer(layer)?,
        };
        if self.states {
            read.states = Some(RawStates::load(&self.below.config, &self.below.weights, layer)?);
        }
        Ok(read)
    }

    /// Reads the embedding (vocab, hidden).
    pub(crate) fn embedding(&self) -> Result<RawMatrix> {
        self.below.reader().embedding()
    }

    /// Reads the norm before the head.
    pub(crate) fn final_norm(&self) -> Result<RawNorm> {
        self.last().reader().final_norm()
    }

    /// Reads the head (vocab, hidden); none where it is the embedding.
    pub(crate) fn head(&self) -> Result<Option<RawLinear>> {
        if self.top.is_none() && self.below.config.tied {
            return Ok(None);
        }
        self.last().reader().head().map(Some)
    }

    /// What norm and head are of.
    fn last(&self) -> &Part {
        self.top.as_ref().unwrap_or(&self.below)
    }
}
