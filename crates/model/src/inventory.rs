//! Which tensors a model of some configuration has.

use crate::config::{ModelConfig, NormKind};
use crate::names::{AttentionNames, Names};

/// What a tensor is, as far as it matters to how it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Of a norm, or a bias.
    Vector,
    /// A matrix whose rows lie in the same order everywhere.
    Matrix,
    /// Rows of queries, by heads: the matrix or its bias.
    Queries,
    /// Rows of keys, by heads: the matrix or its bias.
    Keys,
    /// Rows of queries, keys and values, by heads: the matrix or its bias.
    Fused,
}

/// A tensor of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) role: Role,
}

/// All tensors of a model whose tensors are called by `names`. The same model under other names has the same tensors in
/// the same order.
pub(crate) fn inventory(config: &ModelConfig, names: &Names) -> Vec<Listed> {
    let mut list = List { config, names, prefix: String::new(), tensors: Vec::new() };
    list.matrix(names.embedding, [config.vocab, config.hidden]);
    for layer in 0..config.layers {
        list.prefix = names.in_layer(layer, "");
        list.layer();
    }
    list.prefix.clear();
    list.norm(names.final_norm);
    if !config.tied {
        list.matrix(names.head, [config.vocab, config.hidden]);
    }
    list.tensors
}

struct List<'a> {
    config: &'a ModelConfig,
    names: &'a Names,
    /// What all names begin with.
    prefix: String,
    tensors: Vec<Listed>,
}

impl List<'_> {
    fn layer(&mut self) {
        let ModelConfig { hidden, ffn, .. } = *self.config;
        let (config, names) = (self.config, self.names);
        self.norm(names.input_norm);
        self.attention();
        self.norm(names.post_norm);
        if config.gated_mlp {
            self.linear(&Linear { name: names.gate, shape: [ffn, hidden], bias: config.mlp_bias, role: Role::Matrix });
        }
        self.linear(&Linear { name: names.up, shape: [ffn, hidden], bias: config.mlp_bias, role: Role::Matrix });
        self.linear(&Linear { name: names.down, shape: [hidden, ffn], bias: config.mlp_bias, role: Role::Matrix });
    }

    fn attention(&mut self) {
        let (config, names) = (self.config, self.names);
        let (q_width, kv_width) = (config.q_width(), config.kv_width());
        let mut project = |name, rows, role| {
            self.linear(&Linear { name, shape: [rows, config.hidden], bias: config.qkv_bias, role });
        };
        match names.attention {
            AttentionNames::Split { q, k, v } => {
                project(q, q_width, Role::Queries);
                project(k, kv_width, Role::Keys);
                project(v, kv_width, Role::Matrix);
            }
            AttentionNames::Fused(name) => project(name, 3 * q_width, Role::Fused),
        }
        let shape = [config.hidden, q_width];
        self.linear(&Linear { name: names.o, shape, bias: config.o_bias, role: Role::Matrix });
        if config.qk_norm {
            self.add(names.q_norm, "weight", vec![config.head_dim], Role::Vector);
            self.add(names.k_norm, "weight", vec![config.head_dim], Role::Vector);
        }
    }

    fn norm(&mut self, name: &str) {
        let width = self.config.hidden;
        self.add(name, "weight", vec![width], Role::Vector);
        if self.config.norm.kind == NormKind::Layer {
            self.add(name, "bias", vec![width], Role::Vector);
        }
    }

    fn linear(&mut self, linear: &Linear<'_>) {
        let Linear { name, shape, bias, role } = *linear;
        self.add(name, "weight", shape.to_vec(), role);
        if bias {
            let role = if role == Role::Matrix { Role::Vector } else { role };
            self.add(name, "bias", vec![shape[0]], role);
        }
    }

    fn matrix(&mut self, name: &str, shape: [usize; 2]) {
        self.add(name, "weight", shape.to_vec(), Role::Matrix);
    }

    fn add(&mut self, name: &str, part: &str, shape: Vec<usize>, role: Role) {
        self.tensors.push(Listed { name: format!("{}{name}.{part}", self.prefix), shape, role });
    }
}

/// A linear map.
struct Linear<'a> {
    name: &'a str,
    /// (out, in)
    shape: [usize; 2],
    bias: bool,
    role: Role,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::checkpoint::Checkpoint;
    use crate::weights::Shards;

    #[test]
    fn it_lists_what_checkpoints_have() {
        for name in ["gpt-neox", "llama3-rope-scaling", "qwen3"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
            let (config, shards) = (Checkpoint::open(&folder).unwrap().config, Shards::open(&folder).unwrap());
            let listed = inventory(&config, Names::of(config.family));
            for tensor in &listed {
                assert_eq!(shards.shape(&tensor.name).unwrap(), tensor.shape, "{}", tensor.name);
            }
            let names: BTreeSet<&str> = listed.iter().map(|tensor| tensor.name.as_str()).collect();
            assert_eq!(names, shards.names().collect());
        }
    }
}
