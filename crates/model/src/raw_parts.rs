//! A model's tensors part by part, so that no more of them need be in memory at once than one part has.

use std::ops::Range;

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

/// Some neighbouring layers of a model, with the embedding below the first and norm and head above the last.
pub(crate) struct RawStage<'a> {
    pub(crate) parts: &'a RawParts,
    pub(crate) layers: Range<usize>,
}

/// What comes after the last layer.
pub(crate) struct RawTop {
    pub(crate) norm: RawNorm,
    /// (vocab, hidden)
    pub(crate) head: RawLinear,
    /// Whether the head is the embedding.
    pub(crate) is_tied: bool,
}

impl RawStage<'_> {
    /// Layers that it has.
    pub(crate) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Reads one of its layers, counted from 0.
    pub(crate) fn layer(&self, layer: usize) -> Result<RawLayer> {
        self.parts.layer(self.layers.start + layer)
    }

    /// Reads the embedding (vocab, hidden), if its first layer is the model's.
    pub(crate) fn embedding(&self) -> Result<Option<RawMatrix>> {
        (self.layers.start == 0).then(|| self.parts.embedding()).transpose()
    }

    /// Reads norm and head, if its last layer is the model's.
    pub(crate) fn top(&self) -> Result<Option<RawTop>> {
        if self.layers.end < self.parts.layers() {
            return Ok(None);
        }
        let (norm, own) = (self.parts.final_norm()?, self.parts.head()?);
        let is_tied = own.is_none();
        let head = match own {
            Some(head) => head,
            None => RawLinear { weight: self.parts.embedding()?, bias: None },
        };
        Ok(Some(RawTop { norm, head, is_tied }))
    }
}
