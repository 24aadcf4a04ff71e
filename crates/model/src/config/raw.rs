//! `config.json` as it is written, before anything is believed.

use serde::{Deserialize, Deserializer};

/// The fields of `config.json` that matter to a forward pass. Others are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct RawConfig {
    pub(super) model_type: Option<String>,
    pub(super) num_hidden_layers: Option<usize>,
    pub(super) hidden_size: Option<usize>,
    pub(super) intermediate_size: Option<usize>,
    pub(super) num_attention_heads: Option<usize>,
    #[serde(default, deserialize_with = "present")]
    pub(super) num_key_value_heads: Option<Option<usize>>,
    pub(super) head_dim: Option<usize>,
    pub(super) vocab_size: Option<usize>,
    pub(super) max_position_embeddings: Option<usize>,
    pub(super) hidden_act: Option<String>,
    pub(super) rms_norm_eps: Option<f64>,
    pub(super) layer_norm_eps: Option<f64>,
    pub(super) attention_bias: Option<bool>,
    pub(super) mlp_bias: Option<bool>,
    pub(super) use_parallel_residual: Option<bool>,
    pub(super) tie_word_embeddings: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(super) sliding_window: Option<Option<usize>>,
    pub(super) use_sliding_window: Option<bool>,
    pub(super) max_window_layers: Option<usize>,
    pub(super) layer_types: Option<Vec<String>>,
    pub(super) rope_theta: Option<f64>,
    pub(super) rotary_emb_base: Option<f64>,
    pub(super) rotary_pct: Option<f64>,
    pub(super) partial_rotary_factor: Option<f64>,
    pub(super) rope_scaling: Option<RawRope>,
    pub(super) rope_parameters: Option<RawRope>,
    pub(super) quantization_config: Option<serde::de::IgnoredAny>,
    #[serde(flatten)]
    pub(super) special: SpecialTokens,
}

/// `rope_scaling`, or `rope_parameters` as transformers 5 writes it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RawRope {
    pub(super) rope_type: Option<String>,
    /// What `rope_type` was called before transformers 4.43.
    #[serde(rename = "type")]
    pub(super) old_type: Option<String>,
    pub(super) rope_theta: Option<f64>,
    pub(super) partial_rotary_factor: Option<f64>,
    pub(super) factor: Option<f64>,
    pub(super) original_max_position_embeddings: Option<f64>,
    pub(super) low_freq_factor: Option<f64>,
    pub(super) high_freq_factor: Option<f64>,
    pub(super) attention_factor: Option<f64>,
    pub(super) beta_fast: Option<f64>,
    pub(super) beta_slow: Option<f64>,
    pub(super) mscale: Option<f64>,
    pub(super) mscale_all_dim: Option<f64>,
    pub(super) truncate: Option<bool>,
    /// Of `divided`.
    pub(super) divisors: Option<Vec<f64>>,
}

impl RawRope {
    /// The kind of scaling, if it is given.
    pub(super) fn name(&self) -> Option<&str> {
        self.rope_type.as_deref().or(self.old_type.as_deref())
    }
}

/// The tokens that begin and end a text; `generation_config.json` holds them too, and wins.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SpecialTokens {
    #[serde(default, deserialize_with = "present")]
    pub(super) eos_token_id: Option<Option<OneOrMany>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) bos_token_id: Option<Option<OneOrMany>>,
}

/// A token id, or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

impl From<OneOrMany> for Vec<u32> {
    fn from(tokens: OneOrMany) -> Self {
        match tokens {
            OneOrMany::One(token) => vec![token],
            OneOrMany::Many(tokens) => tokens,
        }
    }
}

/// Tells an absent field (`None`) from an explicit `null` (`Some(None)`).
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
