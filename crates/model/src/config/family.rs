//! The five architectures, and what each assumes where its `config.json` is silent.

use super::fault::ConfigFault;

/// A model architecture, named by `model_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `llama`.
    Llama,
    /// `mistral`: Llama with an optional sliding window on every layer.
    Mistral,
    /// `qwen2`: biased query, key and value projections; sliding windows on some layers.
    Qwen2,
    /// `qwen3`: RMS norm on every query and key head; sliding windows on some layers.
    Qwen3,
    /// `gpt_neox` (Pythia): LayerNorm, a fused biased attention projection, a plain feed-forward, partial rotary.
    GptNeox,
}

/// The values that transformers 4.57 assumes for absent fields.
pub(super) struct Defaults {
    pub(super) kv_heads: Option<usize>,
    pub(super) head_dim: Option<usize>,
    pub(super) context: usize,
    pub(super) activation: &'static str,
    pub(super) eps: f64,
    pub(super) attention_bias: bool,
    pub(super) sliding_window: Option<usize>,
    pub(super) rotary_fraction: f64,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
}

const LLAMA: Defaults = Defaults {
    kv_heads: None,
    head_dim: None,
    context: 2048,
    activation: "silu",
    eps: 1e-6,
    attention_bias: false,
    sliding_window: None,
    rotary_fraction: 1.0,
    bos: Some(1),
    eos: Some(2),
};

const MISTRAL: Defaults = Defaults { kv_heads: Some(8), context: 4096 * 32, sliding_window: Some(4096), ..LLAMA };

const QWEN2: Defaults =
    Defaults { kv_heads: Some(32), context: 32_768, sliding_window: Some(4096), bos: None, eos: None, ..LLAMA };

const QWEN3: Defaults = Defaults { head_dim: Some(128), ..QWEN2 };

const GPT_NEOX: Defaults =
    Defaults { activation: "gelu", eps: 1e-5, attention_bias: true, rotary_fraction: 0.25, bos: Some(0), ..LLAMA };

impl Family {
    /// The names that `model_type` may have.
    pub const KNOWN: &[&str] = &["llama", "mistral", "qwen2", "qwen3", "gpt_neox"];

    /// The architecture that `model_type` names.
    pub(super) fn parse(model_type: &str) -> Result<Self, ConfigFault> {
        match model_type {
            "llama" => Ok(Self::Llama),
            "mistral" => Ok(Self::Mistral),
            "qwen2" => Ok(Self::Qwen2),
            "qwen3" => Ok(Self::Qwen3),
            "gpt_neox" => Ok(Self::GptNeox),
            other => Err(ConfigFault::Unknown { field: "model_type", found: other.to_owned(), known: Self::KNOWN }),
        }
    }

    pub(super) fn defaults(self) -> &'static Defaults {
        match self {
            Self::Llama => &LLAMA,
            Self::Mistral => &MISTRAL,
            Self::Qwen2 => &QWEN2,
            Self::Qwen3 => &QWEN3,
            Self::GptNeox => &GPT_NEOX,
        }
    }
}
