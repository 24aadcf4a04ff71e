//! The final norm and the language-model head.

use candle_core::Tensor;
use espalier_model::ModelConfig;

use super::ops::{Linear, rms_norm};
use super::params::Scope;
use crate::error::Result;

/// From the residual stream to logits.
#[derive(Debug)]
pub(crate) struct Head {
    norm: Tensor,
    map: Linear,
    eps: f64,
}

impl Head {
    /// The norm of `scope`, with `weight` (vocab, hidden) as the head.
    pub(crate) fn build(config: &ModelConfig, scope: &mut Scope<'_>, weight: Tensor) -> Result<Self> {
        let norm = scope.norm("model.norm.weight", config.hidden)?;
        Ok(Self { norm, map: Linear { weight, bias: None }, eps: config.norm.eps })
    }

    /// (batch, length, hidden) -> (batch * length, vocab)
    pub(crate) fn logits(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.map.forward(&rms_norm(x, &self.norm, self.eps)?)?.flatten_to(1)?)
    }
}
