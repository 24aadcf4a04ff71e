//! What sorts of drafters there are.

use super::config::TargetCard;

/// What a drafter is, and what it needs of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftKind {
    /// Any model of the target's vocabulary.
    Independent,
    /// A model with several exits (S2D), for any target of its vocabulary.
    Sorted,
    /// One layer over the target's hidden states: committed positions are known by [`Decoder::append_states`](crate::Decoder::append_states), by them
    /// alone or beside their tokens; the root and what is drafted below it by their tokens.
    Edd {
        /// Its only target.
        target: TargetCard,
        /// The layer of the target, counted from 1, after which the hidden states are read.
        tapped_layer: usize,
        /// Whether it reads the tokens of committed positions too.
        tokens_beside_states: bool,
    },
    /// One layer on top of the target's first ones, run over tokens.
    EarlyExit {
        /// Its only target.
        target: TargetCard,
        /// Layers that are the target's own.
        shared_layers: usize,
    },
}

impl DraftKind {
    /// The name of the kind: `independent`, `sorted`, `edd` or `early-exit`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Sorted => "sorted",
            Self::Edd { .. } => "edd",
            Self::EarlyExit { .. } => "early-exit",
        }
    }

    /// The only target that it serves; none if it serves any of its vocabulary.
    pub fn target(&self) -> Option<&TargetCard> {
        match self {
            Self::Independent | Self::Sorted => None,
            Self::Edd { target, .. } | Self::EarlyExit { target, .. } => Some(target),
        }
    }

    /// The layer of the target, counted from 1, whose hidden states it reads; none if it reads tokens alone.
    pub fn tapped_layer(&self) -> Option<usize> {
        match self {
            Self::Edd { tapped_layer, .. } => Some(*tapped_layer),
            _ => None,
        }
    }
}
