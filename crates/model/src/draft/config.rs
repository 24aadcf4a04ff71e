//! What the folder of a drafter says of it: written by a trainer, read by whoever serves it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `config.json` of a drafter that is of use to one target only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model_type")]
pub enum DraftConfig {
    /// One layer that reads the target's hidden states (EDD, "Parallel Decoding via Effective Draft Decoder", §3.1).
    #[serde(rename = "espalier_edd")]
    Edd {
        /// The target.
        target: TargetCard,
        /// The layer of the target, counted from 1, after which its hidden states are read.
        tapped_layer: usize,
        /// The least and the most tokens after the hidden states that it was trained on.
        block_lengths: [usize; 2],
        /// Whether it sees the tokens of those positions too, the hidden states having a norm and maps of their own.
        /// The paper's form, which files of earlier versions mean, does not.
        #[serde(default)]
        tokens_beside_states: bool,
        /// `config.json` of the one layer with its embedding, norm and head.
        decoder: Value,
    },
    /// One layer, a norm and a head on top of the target's first layers (EESD, "Speculative Decoding via Early-exiting",
    /// §3.1).
    #[serde(rename = "espalier_early_exit")]
    EarlyExit {
        /// The target.
        target: TargetCard,
        /// Layers that are the target's own.
        shared_layers: usize,
        /// `config.json` of the layer on top with its norm and head.
        decoder: Value,
    },
}

/// How the `model_type` of every [`DraftConfig`] begins.
const PREFIX: &str = "espalier_";

/// What names a target: a drafter that reads its hidden states, or shares its layers, is of no use to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetCard {
    /// The name of its folder, for people.
    pub name: String,
    /// [`fingerprint`](crate::fingerprint()).
    pub fingerprint: String,
    /// Its tokenizer's fingerprint.
    pub tokenizer: String,
    /// Its number of layers.
    pub layers: usize,
    /// The width of its residual stream.
    pub hidden_size: usize,
}

/// The fields of `config.json` that tell one kind of drafter from another.
#[derive(Debug, Deserialize)]
pub(super) struct Probe {
    model_type: Option<String>,
    /// The layers after which a drafter with several exits may answer.
    #[serde(rename = "espalier_exits")]
    pub(super) exits: Option<Vec<usize>>,
}

impl Probe {
    /// Whether the file is a [`DraftConfig`].
    pub(super) fn is_of_one_target(&self) -> bool {
        self.model_type.as_deref().is_some_and(|name| name.starts_with(PREFIX))
    }
}

/// Why a drafter was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DraftFault {
    /// A number that does not fit the target.
    #[error("`{field}` is {found}, outside 1..={max}")]
    Layer {
        /// The field of `config.json`.
        field: &'static str,
        /// Its value.
        found: usize,
        /// The largest that the target's layers allow.
        max: usize,
    },
    /// The decoder of a drafter for one target is not one layer of the target's shape.
    #[error("its decoder's {what} is {found}, expected {expected}")]
    Decoder {
        /// The dimension.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The only legal value.
        expected: usize,
    },
    /// The layer on top computes in another way than those below.
    #[error("its layer and those of its target {target} are not of one shape")]
    Foreign {
        /// The target's name.
        target: String,
    },
    /// A part of the target is needed, but its folder was not given.
    #[error("it shares the first layers of its target {target}, whose folder is needed")]
    NoTarget {
        /// The target's name.
        target: String,
    },
    /// It was made for another target.
    #[error("it was made for the target {target} of fingerprint {expected}, not for {found}")]
    OtherTarget {
        /// The name of the target it was made for.
        target: String,
        /// The fingerprint of that target.
        expected: String,
        /// The fingerprint of the one that was given.
        found: String,
    },
    /// Only some of its layers were asked for.
    #[error("it cannot be cut to {layers} layers")]
    Cut {
        /// Layers asked for.
        layers: usize,
    },
}
