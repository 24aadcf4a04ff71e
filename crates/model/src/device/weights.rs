//! The weights that a rank has on its device.

use candle_core::Tensor;

use super::linear::{Map, NormLayer};
use super::rank_place::RankPlace;
use crate::attention::AttentionShape;

/// The weights of a rank.
pub(super) struct DeviceModel {
    pub(super) place: RankPlace,
    /// (tokens of this rank, hidden), if its stage is the first.
    pub(super) embedding: Option<Tensor>,
    pub(super) layers: Vec<Layer>,
    /// If its stage is the last.
    pub(super) top: Option<Top>,
}

/// What comes after the last layer.
pub(super) struct Top {
    pub(super) norm: NormLayer,
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
        let head = self.top.iter().map(|top| &top.head);
        self.layers.iter().flat_map(Layer::maps).chain(head).map(Map::multiply_adds).sum()
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
