//! What every engine has to know of a model.

use std::ops::Range;

use crate::config::ModelConfig;
use crate::error::{ModelError, Result};
use crate::rotations::Rotations;

/// A model without its weights.
pub(crate) struct ModelInfo {
    pub(crate) config: ModelConfig,
    pub(crate) rotations: Rotations,
    /// Layers that are loaded.
    pub(crate) layers: usize,
    /// Those of them in which other models' hidden states stand beside tokens.
    pub(crate) layers_of_states: usize,
}

impl ModelInfo {
    /// Some neighbouring layers, as if they were a model.
    pub(crate) fn part(&self, layers: Range<usize>) -> Self {
        let windows = self.config.windows.iter().skip(layers.start).take(layers.len()).copied().collect();
        let config = ModelConfig { layers: layers.len(), windows, ..self.config.clone() };
        let layers_of_states = self.layers_of_states.min(layers.len());
        Self { layers: layers.len(), layers_of_states, ..self.with_config(config) }
    }

    /// The same layers of a part of the model that has another configuration.
    pub(crate) fn with_config(&self, config: ModelConfig) -> Self {
        Self {
            rotations: Rotations::new(&config),
            config,
            layers: self.layers,
            layers_of_states: self.layers_of_states,
        }
    }

    /// Layers of a cache: after the model's own those of states that stand beside tokens.
    pub(crate) fn cache_layers(&self) -> usize {
        self.layers + self.layers_of_states
    }

    /// Refuses a token that there is not.
    pub(crate) fn check_token(&self, token: u32) -> Result<()> {
        let vocab = self.config.vocab;
        if (token as usize) < vocab { Ok(()) } else { Err(ModelError::Token { token, vocab }) }
    }
}
