//! The weights that a rank has on its device.

use candle_core::{Device, Tensor};

use super::linear::{Map, NormLayer};
use super::shard::Shard;
use crate::attention::AttentionShape;

/// The weights of a rank.
pub(super) struct DeviceModel {
    pub(super) device: Device,
    pub(super) shard: Shard,
    /// (tokens of this rank, hidden)
    pub(super) embedding: Tensor,
    pub(super) layers: Vec<Layer>,
    pub(super) final_norm: NormLayer,
    pub(super) head: Map,
}

/// One block.
pub(super) struct Layer {
    pub(super) input: Projection,
    /// Of another model's hidden states, where they are keys and values beside those of tokens.
    pub(super) states: Option<Projection>,
    pub(super) qk_norm: Option<(NormLayer, NormLayer)>,
    pub(super) output: Map,
    pub(super) post_norm: NormLayer,
    pub(super) mlp: Mlp,
    pub(super) attention: AttentionShape,
}

/// What rows go through before attention.
pub(super) struct Projection {
    pub(super) norm: NormLayer,
    /// None where only keys and values are wanted of its input.
    pub(super) queries: Option<Map>,
    pub(super) keys: Map,
    pub(super) values: Map,
}

/// The feed-forward part.
pub(super) enum Mlp {
    /// `down(act(gate(x)) * up(x))`.
    Gated { gate: Map, up: Map, down: Map },
    /// `down(act(up(x)))`.
    Plain { up: Map, down: Map },
}

impl DeviceModel {
    /// Multiply-adds of one row with its weights.
    pub(super) fn multiply_adds(&self) -> usize {
        self.layers.iter().flat_map(Layer::maps).chain([&self.head]).map(Map::multiply_adds).sum()
    }
}

impl Layer {
    fn maps(&self) -> Vec<&Map> {
        let Projection { queries, keys, values, .. } = &self.input;
        let mut maps = vec![keys, values, &self.output];
        maps.extend(queries);
        match &self.mlp {
            Mlp::Gated { gate, up, down } => maps.extend([gate, up, down]),
            Mlp::Plain { up, down } => maps.extend([up, down]),
        }
        maps
    }
}
