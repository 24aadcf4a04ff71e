//! A Llama-family model whose every operation passes a gradient on.
//!
//! candle loses gradients without a word in its fused operations (`softmax_last_dim`, `rms_norm`, `rope`, …); none of
//! them is used here.

mod geometry;
mod head;
mod layer;
mod model;
mod ops;
mod params;
#[cfg(test)]
mod tests;

pub(crate) use geometry::{Geometry, Rotation};
pub(crate) use head::Head;
pub(crate) use layer::Layer;
pub(crate) use model::{
    Llama, Tapped, check_family, check_length, embed, embedding_and_head, head_alone, layer_prefix,
};
pub(crate) use params::{Params, Scope, Start};
