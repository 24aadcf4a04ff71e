//! What the tensors of a checkpoint are called in a GGUF file, and how their rows are ordered there.

use super::architecture::Architecture;
use super::row_order::RowOrder;
use crate::config::ModelConfig;
use crate::inventory::{Listed, Role, inventory};
use crate::names::Names;

/// A tensor of a model, and where it is in a GGUF file.
#[derive(Debug)]
pub(super) struct Place {
    /// What the checkpoint calls it.
    pub(super) checkpoint_name: String,
    /// What the file calls it.
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) order: RowOrder,
}

/// The places of all tensors of a model.
pub(super) fn places(config: &ModelConfig) -> Vec<Place> {
    let architecture = Architecture::of(config.family);
    let here = inventory(config, Names::of(config.family));
    let there = inventory(config, architecture.names());
    let place = |(here, there): (Listed, Listed)| Place {
        checkpoint_name: here.name,
        name: there.name,
        shape: here.shape,

        order: order(architecture, config, here.role),
    };
    here.into_iter().zip(there).map(place).collect()
}

fn order(architecture: Architecture, config: &ModelConfig, role: Role) -> RowOrder {
    match (architecture, role) {
        (Architecture::Llama, Role::Queries) => RowOrder::Pairs { heads: config.heads },
        (Architecture::Llama, Role::Keys) => RowOrder::Pairs { heads: config.kv_heads },
        (_, Role::Fused) => RowOrder::Parts { heads: config.heads },
        _ => RowOrder::Same,
    }
}
