//! The operations of a layer, each passing gradients on.

use candle_core::{D, Tensor};
use candle_nn::ops::{rms_norm_slow, softmax};
use espalier_model::Activation;

use super::geometry::Rotation;
use crate::error::Result;

/// A linear map, `y = x · weightᵀ + bias`.
#[derive(Debug)]
pub(super) struct Linear {
    /// (out, in)
    pub(super) weight: Tensor,
    /// (out,)
    pub(super) bias: Option<Tensor>,
}

impl Linear {
    /// (batch, length, in) -> (batch, length, out)
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, length, inputs) = x.dims3()?;
        // One product over all positions: a batched one would pack the weights again for every row of the batch.
        let flat = x.reshape((batch * length, inputs))?.matmul(&self.weight.t()?)?;
        let flat = match &self.bias {
            Some(bias) => flat.broadcast_add(bias)?,
            None => flat,
        };
        Ok(flat.reshape((batch, length, self.weight.dim(0)?))?)
    }
}

/// Root-mean-square norm over the last dimension.
pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    Ok(rms_norm_slow(x, weight, eps as f32)?)
}

/// (batch, heads, length, head_dim): the two halves of the first dimensions of every head turned against each other.
pub(super) fn rotate(x: &Tensor, rotation: &Rotation) -> Result<Tensor> {
    let (half, width) = (rotation.cos.dim(D::Minus1)?, x.dim(D::Minus1)?);
    let (first, second) = (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?);
    let turned_first = (first.broadcast_mul(&rotation.cos)? - second.broadcast_mul(&rotation.sin)?)?;
    let turned_second = (second.broadcast_mul(&rotation.cos)? + first.broadcast_mul(&rotation.sin)?)?;
    if 2 * half == width {
        return Ok(Tensor::cat(&[turned_first, turned_second], D::Minus1)?);
    }
    let still = x.narrow(D::Minus1, 2 * half, width - 2 * half)?;
    Ok(Tensor::cat(&[turned_first, turned_second, still], D::Minus1)?)
}

/// Masked attention with one key and value head for several query heads.
///
/// `q` (batch, heads, length, head_dim), `k` and `v` (batch, kv_heads, keys, head_dim), `mask` (batch, 1, length, keys)
/// -> (batch, length, heads * head_dim)
pub(super) fn attention(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let (batch, heads, length, dim) = q.dims4()?;
    let (_, kv_heads, keys, _) = k.dims4()?;
    // The queries that share a key and value head are rows of one product.
    let shared = (batch, kv_heads, heads / kv_heads * length, dim);
    let scores = q.contiguous()?.reshape(shared)?.matmul(&k.contiguous()?.t()?)?;
    let scores = (scores.reshape((batch, heads, length, keys))? * (1.0 / (dim as f64).sqrt()))?;
    let weights = softmax(&scores.broadcast_add(mask)?, D::Minus1)?; // (batch, heads, length, keys)
    let weights = weights.reshape((batch, kv_heads, heads / kv_heads * length, keys))?;
    let mixed = weights.matmul(&v.contiguous()?)?.reshape((batch, heads, length, dim))?;
    Ok(mixed.transpose(1, 2)?.reshape((batch, length, heads * dim))?)
}

/// `activation(gate) * up`.
pub(super) fn gated(activation: Activation, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let gate = match activation {
        Activation::Silu => gate.silu()?,
        Activation::Gelu => gate.gelu_erf()?,
        Activation::GeluTanh => gate.gelu()?,
        Activation::Relu => gate.relu()?,
    };
    Ok((gate * up)?)
}
