//! One transformer layer.

use candle_core::Tensor;
use espalier_model::{Activation, ModelConfig};

use super::geometry::{Geometry, Rotation};
use super::ops::{Linear, attention, gated, rms_norm, rotate};
use super::params::Scope;
use crate::error::Result;

/// A layer: attention and a gated feed-forward, each after an RMS norm.
#[derive(Debug)]
pub(crate) struct Layer {
    input_norm: Tensor,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    /// The norms of every query and every key head.
    head_norms: Option<(Tensor, Tensor)>,
    post_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
    /// How states become keys and values; none if they do as inputs do.
    of_states: Option<OfStates>,
    heads: usize,
    kv_heads: usize,
    eps: f64,
    activation: Activation,
}

/// What states of another model go through instead of the layer's own norm and maps.
#[derive(Debug)]
struct OfStates {
    norm: Tensor,
    k: Linear,
    v: Linear,
}

impl Layer {
    /// A layer of a model's shape from the tensors of `scope`.
    pub(crate) fn build(config: &ModelConfig, scope: &mut Scope<'_>) -> Result<Self> {
        let ModelConfig { hidden, ffn, head_dim, qkv_bias, o_bias, mlp_bias, .. } = *config;
        let (q_width, kv_width) = (config.q_width(), config.kv_width());
        let mut head_norm = |name| config.qk_norm.then(|| scope.norm(name, head_dim)).transpose();
        let head_norms = head_norm("self_attn.q_norm.weight")?.zip(head_norm("self_attn.k_norm.weight")?);
        Ok(Self {
            input_norm: scope.norm("input_layernorm.weight", hidden)?,
            q: linear(scope, "self_attn.q_proj", [q_width, hidden], qkv_bias)?,
            k: linear(scope, "self_attn.k_proj", [kv_width, hidden], qkv_bias)?,
            v: linear(scope, "self_attn.v_proj", [kv_width, hidden], qkv_bias)?,
            o: linear(scope, "self_attn.o_proj", [hidden, q_width], o_bias)?,
            head_norms,
            post_norm: scope.norm("post_attention_layernorm.weight", hidden)?,
            gate: linear(scope, "mlp.gate_proj", [ffn, hidden], mlp_bias)?,
            up: linear(scope, "mlp.up_proj", [ffn, hidden], mlp_bias)?,
            down: linear(scope, "mlp.down_proj", [hidden, ffn], mlp_bias)?,
            of_states: None,
            heads: config.heads,
            kv_heads: config.kv_heads,
            eps: config.norm.eps,
            activation: config.activation,
        })
    }

    /// The same layer with a norm and maps of their own for states, from the tensors of `scope`.
    pub(crate) fn with_maps_of_states(mut self, config: &ModelConfig, scope: &mut Scope<'_>) -> Result<Self> {
        let (shape, bias) = ([config.kv_width(), config.hidden], config.qkv_bias);
        self.of_states = Some(OfStates {
            norm: scope.norm("states_norm.weight", config.hidden)?,
            k: linear(scope, "self_attn.k_states_proj", shape, bias)?,
            v: linear(scope, "self_attn.v_states_proj", shape, bias)?,
        });
        Ok(self)
    }

    /// (batch, length, hidden) -> (batch, length, hidden)
    pub(crate) fn forward(&self, x: &Tensor, geometry: &Geometry) -> Result<Tensor> {
        self.run(x, None, geometry)
    }

    /// As [`Self::forward`], with keys and values of `states` (batch, length, hidden) before those of `x`: the layer
    /// reads them at the same positions as the inputs, as if they were inputs unless they have maps of their own, but
    /// computes nothing else of them. The mask's keys are the states', then the inputs'.
    pub(crate) fn forward_over(&self, x: &Tensor, states: &Tensor, geometry: &Geometry) -> Result<Tensor> {
        self.run(x, Some(states), geometry)
    }

    fn run(&self, x: &Tensor, states: Option<&Tensor>, geometry: &Geometry) -> Result<Tensor> {
        let normed = rms_norm(x, &self.input_norm, self.eps)?;
        let (mut k, mut v) = self.keys_and_values(&self.k, &self.v, &normed, &geometry.rotation)?;
        if let Some(states) = states {
            let (states_k, states_v) = self.keys_and_values_of_states(states, &geometry.rotation)?;
            k = Tensor::cat(&[states_k, k], 2)?; // (batch, kv_heads, 2 * length, head_dim)
            v = Tensor::cat(&[states_v, v], 2)?;
        }
        let q_norm = self.head_norms.as_ref().map(|(q, _)| q);
        let q = rotate(&self.split(&self.q, self.heads, q_norm, &normed)?, &geometry.rotation)?;
        let x = (x + self.o.forward(&attention(&q, &k, &v, &geometry.mask)?)?)?;
        let normed = rms_norm(&x, &self.post_norm, self.eps)?;
        let inner = gated(self.activation, &self.gate.forward(&normed)?, &self.up.forward(&normed)?)?;
        Ok((x + self.down.forward(&inner)?)?)
    }

    /// (batch, length, hidden) -> two of (batch, kv_heads, length, head_dim)
    fn keys_and_values_of_states(&self, states: &Tensor, rotation: &Rotation) -> Result<(Tensor, Tensor)> {
        match &self.of_states {
            Some(own) => self.keys_and_values(&own.k, &own.v, &rms_norm(states, &own.norm, self.eps)?, rotation),
            None => self.keys_and_values(&self.k, &self.v, &rms_norm(states, &self.input_norm, self.eps)?, rotation),
        }
    }

    /// (batch, length, hidden) -> two of (batch, kv_heads, length, head_dim)
    fn keys_and_values(
        &self,
        k: &Linear,
        v: &Linear,
        normed: &Tensor,
        rotation: &Rotation,
    ) -> Result<(Tensor, Tensor)> {
        let k_norm = self.head_norms.as_ref().map(|(_, k)| k);
        let k = rotate(&self.split(k, self.kv_heads, k_norm, normed)?, rotation)?;
        Ok((k, self.split(v, self.kv_heads, None, normed)?))
    }

    /// (batch, length, hidden) -> (batch, heads, length, head_dim), each head normalised where the model does so.
    fn split(&self, map: &Linear, heads: usize, norm: Option<&Tensor>, x: &Tensor) -> Result<Tensor> {
        let (batch, length, _) = x.dims3()?;
        let split = map.forward(x)?.reshape((batch, length, heads, ()))?;
        let split = match norm {
            Some(weight) => rms_norm(&split, weight, self.eps)?,
            None => split,
        };
        Ok(split.transpose(1, 2)?.contiguous()?)
    }
}

fn linear(scope: &mut Scope<'_>, name: &str, shape: [usize; 2], bias: bool) -> Result<Linear> {
    let weight = scope.tensor(&format!("{name}.weight"), &shape)?;
    let bias = bias.then(|| scope.tensor(&format!("{name}.bias"), &shape[..1])).transpose()?;
    Ok(Linear { weight, bias })
}
