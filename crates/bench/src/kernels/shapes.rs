//! Sizes of models that many people run. Weights of random numbers cost what trained ones do, so a size is all it takes to
//! measure passes of such a model.

use std::str::FromStr;

use espalier_model::{ConfigFault, ModelConfig};
use serde::Serialize;
use serde_json::json;

/// The sizes of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    model_type: &'static str,
    layers: usize,
    hidden: usize,
    ffn: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    vocab: usize,
    /// Whether the head is the embedding.
    tied: bool,
    rope_theta: f64,
}

/// No shape has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no shape is called {found:?}, only {} are known", Shape::names().join(", "))]
pub(crate) struct UnknownShape {
    found: String,
}

/// Llama 3.2 with 1 B parameters, from which others differ in what they name.
const LLAMA_1B: Shape = Shape {
    name: "llama-1b",
    model_type: "llama",
    layers: 16,
    hidden: 2048,
    ffn: 8192,
    heads: 32,
    kv_heads: 8,
    head_dim: 64,
    vocab: 128_256,
    tied: true,
    rope_theta: 500_000.0,
};

/// Qwen 2.5 with 0.5 B parameters, as above.
const QWEN_0_5B: Shape = Shape {
    name: "qwen-0.5b",
    model_type: "qwen2",
    layers: 24,
    hidden: 896,
    ffn: 4864,
    heads: 14,
    kv_heads: 2,
    head_dim: 64,
    vocab: 151_936,
    tied: true,
    rope_theta: 1_000_000.0,
};

/// Llama 3.1 with 8 B parameters, as above.
const LLAMA_8B: Shape =
    Shape { name: "llama-8b", layers: 32, hidden: 4096, ffn: 14_336, head_dim: 128, tied: false, ..LLAMA_1B };

impl Shape {
    /// All shapes, by family and size. `1.1b` is Llama 3.2 with 1 B parameters but for a vocabulary of 32 000 and a head of
    /// its own.
    pub(crate) const ALL: [Self; 9] = [
        Self { name: "1.1b", vocab: 32_000, tied: false, ..LLAMA_1B },
        LLAMA_1B,
        Self { name: "llama-3b", layers: 28, hidden: 3072, heads: 24, head_dim: 128, ..LLAMA_1B },
        LLAMA_8B,
        Self {
            name: "llama-13b",
            layers: 40,
            hidden: 5120,
            ffn: 13_824,
            heads: 40,
            kv_heads: 40,
            vocab: 32_000,
            rope_theta: 10_000.0,
            ..LLAMA_8B
        },
        Self { name: "mistral-7b", model_type: "mistral", vocab: 32_768, rope_theta: 1_000_000.0, ..LLAMA_8B },
        QWEN_0_5B,
        Self { name: "qwen-1.5b", layers: 28, hidden: 1536, ffn: 8960, heads: 12, head_dim: 128, ..QWEN_0_5B },
        Self {
            name: "qwen-7b",
            layers: 28,
            hidden: 3584,
            ffn: 18_944,
            heads: 28,
            kv_heads: 4,
            head_dim: 128,
            vocab: 152_064,
            tied: false,
            ..QWEN_0_5B
        },
    ];

    /// The names of all.
    pub(crate) fn names() -> [&'static str; Self::ALL.len()] {
        Self::ALL.map(|shape| shape.name)
    }

    /// What `config.json` says of such a model, as far as it matters to what a pass costs.
    pub(crate) fn config(&self) -> Result<ModelConfig, ConfigFault> {
        let config = json!({
            "model_type": self.model_type,
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "intermediate_size": self.ffn,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "tie_word_embeddings": self.tied,
            "rope_theta": self.rope_theta,
            "sliding_window": null,
        });
        ModelConfig::parse(&config.to_string(), None)
    }
}

impl FromStr for Shape {
    type Err = UnknownShape;

    fn from_str(name: &str) -> Result<Self, UnknownShape> {
        let known = Self::ALL.into_iter().find(|shape| shape.name == name);
        known.ok_or_else(|| UnknownShape { found: name.to_owned() })
    }
}

/// The sizes of a measured model.
#[derive(Debug, Serialize)]
pub(super) struct Sizes {
    parameters: usize,
    layers: usize,
    hidden: usize,
    ffn: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    vocab: usize,
    tied: bool,
}

impl Sizes {
    /// The sizes of a model of this configuration.
    pub(super) fn of(config: &ModelConfig) -> Self {
        let ModelConfig { layers, hidden, ffn, heads, kv_heads, head_dim, vocab, tied, .. } = *config;
        Self { parameters: config.parameters(), layers, hidden, ffn, heads, kv_heads, head_dim, vocab, tied }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Parameters in millions, as those who made the models publish them.
    const PUBLISHED: [(&str, f64); Shape::ALL.len()] = [
        ("1.1b", 1100.0),
        ("llama-1b", 1240.0),
        ("llama-3b", 3210.0),
        ("llama-8b", 8030.0),
        ("llama-13b", 13_016.0),
        ("mistral-7b", 7250.0),
        ("qwen-0.5b", 494.0),
        ("qwen-1.5b", 1544.0),
        ("qwen-7b", 7616.0),
    ];

    #[test]
    fn every_shape_is_a_model_of_the_published_size() {
        for (name, millions) in PUBLISHED {
            let shape: Shape = name.parse().unwrap();
            let parameters = shape.config().unwrap().parameters() as f64 / 1e6;
            assert!((parameters / millions - 1.0).abs() < 0.01, "{name} has {parameters} M parameters");
        }
    }

    #[test]
    fn an_unknown_shape_is_refused_with_those_that_are_known() {
        let refusal = "llama-2b".parse::<Shape>().unwrap_err().to_string();
        let known = "1.1b, llama-1b, llama-3b, llama-8b, llama-13b, mistral-7b, qwen-0.5b, qwen-1.5b, qwen-7b";
        assert_eq!(refusal, format!("no shape is called \"llama-2b\", only {known} are known"));
    }
}
