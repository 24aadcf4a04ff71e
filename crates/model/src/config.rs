//! `config.json` of a Hugging Face checkpoint, parsed once into a description that can be trusted.
//!
//! The meaning of every field, and of its absence, is that of transformers 4.57; `rope_parameters` of transformers 5 is
//! read as well.

mod checks;
mod family;
mod fault;
mod raw;
mod rope;
#[cfg(test)]
mod tests;
mod windows;

use checks::{CONTEXT_MAX, dimension, in_range, multiple};
pub use family::Family;
pub use fault::ConfigFault;
use raw::{OneOrMany, RawConfig, SpecialTokens};
pub use rope::{Llama3, RopeConfig, RopeScaling, Yarn};

const LAYERS_MAX: usize = 1 << 10;
const HIDDEN_MAX: usize = 1 << 17;
const HEADS_MAX: usize = 1 << 12;
const HEAD_DIM_MAX: usize = 1 << 13;
const FFN_MAX: usize = 1 << 20;
const VOCAB_MAX: usize = 1 << 24;

/// Everything about a model but its weights. Made by [`ModelConfig::parse`], which checks every field.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The architecture.
    pub family: Family,
    /// The number of transformer layers.
    pub layers: usize,
    /// The width of the residual stream.
    pub hidden: usize,
    /// The number of query heads.
    pub heads: usize,
    /// The number of key and value heads, a divisor of `heads`.
    pub kv_heads: usize,
    /// The size of a head. `heads * head_dim` may differ from `hidden`.
    pub head_dim: usize,
    /// The inner width of the feed-forward.
    pub ffn: usize,
    /// The rows of the embedding matrix; padding included, so the tokenizer may have fewer tokens.
    pub vocab: usize,
    /// The number of positions, `max_position_embeddings`.
    pub context: usize,
    /// The normalisation before attention, before the feed-forward and before the head.
    pub norm: Norm,
    /// The non-linearity of the feed-forward.
    pub activation: Activation,
    /// The rotary position embedding.
    pub rope: RopeConfig,
    /// Whether the query, key and value projections have a bias.
    pub qkv_bias: bool,
    /// Whether the output projection of attention has a bias.
    pub o_bias: bool,
    /// Whether the projections of the feed-forward have a bias.
    pub mlp_bias: bool,
    /// Whether every query and key head is normalised before it is rotated.
    pub qk_norm: bool,
    /// `down(act(gate(x)) * up(x))` if true, `down(act(up(x)))` if false.
    pub gated_mlp: bool,
    /// Whether attention and feed-forward both read the layer's input (`x + attn(n1(x)) + mlp(n2(x))`), instead of one
    /// after the other.
    pub parallel_residual: bool,
    /// Whether the head is the embedding matrix.
    pub tied: bool,
    /// Per layer, the sliding window in tokens: the query at position `i` sees the key at `j` only if `j > i - window`.
    pub windows: Vec<Option<usize>>,
    /// The tokens that end a text; may be empty.
    pub eos: Vec<u32>,
    /// The token that begins a text.
    pub bos: Option<u32>,
}

/// A normalisation: its formula and the constant that keeps it finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// The formula.
    pub kind: NormKind,
    /// Added to the variance.
    pub eps: f64,
}

/// The formula of a normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// `x / sqrt(mean(x²) + eps) * weight`.
    Rms,
    /// `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias`.
    Layer,
}

/// A non-linearity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x * Φ(x)` with the exact normal distribution function.
    Gelu,
    /// The approximation of GELU by a hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

impl Activation {
    const KNOWN: &[&str] = &[
        "silu",
        "swish",
        "gelu",
        "gelu_python",
        "gelu_new",
        "gelu_fast",
        "gelu_pytorch_tanh",
        "gelu_python_tanh",
        "gelu_accurate",
        "relu",
    ];

    fn parse(name: &str) -> Result<Self, ConfigFault> {
        match name {
            "silu" | "swish" => Ok(Self::Silu),
            "gelu" | "gelu_python" => Ok(Self::Gelu),
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" | "gelu_python_tanh" | "gelu_accurate" => Ok(Self::GeluTanh),
            "relu" => Ok(Self::Relu),
            other => Err(ConfigFault::Unknown { field: "hidden_act", found: other.to_owned(), known: Self::KNOWN }),
        }
    }
}

impl ModelConfig {
    /// Parses the text of `config.json`, and of `generation_config.json` where there is one: its special tokens win.
    pub fn parse(config: &str, generation: Option<&str>) -> Result<Self, ConfigFault> {
        let raw: RawConfig = serde_json::from_str(config)?;
        let generation = generation.map(serde_json::from_str).transpose()?.unwrap_or_default();
        if raw.quantization_config.is_some() {
            return Err(ConfigFault::Quantized);
        }
        let model_type = raw.model_type.as_deref().ok_or(ConfigFault::Missing { field: "model_type" })?;
        let config = Self::from_raw(&raw, Family::parse(model_type)?)?;
        Ok(config.with_special_tokens(raw.special, generation))
    }

    fn from_raw(raw: &RawConfig, family: Family) -> Result<Self, ConfigFault> {
        let neox = family == Family::GptNeox;
        let attention_bias = raw.attention_bias.unwrap_or(family.defaults().attention_bias);
        let has_attention_bias = attention_bias && matches!(family, Family::Llama | Family::Qwen3 | Family::GptNeox);
        let layers = dimension("num_hidden_layers", raw.num_hidden_layers, LAYERS_MAX)?;
        let hidden = dimension("hidden_size", raw.hidden_size, HIDDEN_MAX)?;
        let heads = dimension("num_attention_heads", raw.num_attention_heads, HEADS_MAX)?;
        let head_dim = head_dim(raw, family, hidden, heads)?;
        let context = raw.max_position_embeddings.unwrap_or(family.defaults().context);
        let context = dimension("max_position_embeddings", Some(context), CONTEXT_MAX)?;
        Ok(Self {
            family,
            layers,
            hidden,
            heads,
            kv_heads: kv_heads(raw, family, heads)?,
            head_dim,
            ffn: dimension("intermediate_size", raw.intermediate_size, FFN_MAX)?,
            vocab: dimension("vocab_size", raw.vocab_size, VOCAB_MAX)?,
            context,
            norm: norm(raw, family)?,
            activation: Activation::parse(raw.hidden_act.as_deref().unwrap_or(family.defaults().activation))?,
            rope: rope::parse(raw, family, head_dim, context)?,
            qkv_bias: has_attention_bias || family == Family::Qwen2,
            o_bias: has_attention_bias,
            mlp_bias: neox || (family == Family::Llama && raw.mlp_bias.unwrap_or(false)),
            qk_norm: family == Family::Qwen3,
            gated_mlp: !neox,
            parallel_residual: neox && raw.use_parallel_residual.unwrap_or(true),
            tied: raw.tie_word_embeddings.unwrap_or(false),
            windows: windows::parse(raw, family, layers)?,
            eos: Vec::new(),
            bos: None,
        })
    }

    /// Per token kind: `generation_config.json`, else `config.json`, else the family's default.
    fn with_special_tokens(mut self, config: SpecialTokens, generation: SpecialTokens) -> Self {
        let defaults = self.family.defaults();
        let choose =
            |generation: Option<Option<OneOrMany>>, config: Option<Option<OneOrMany>>, default: Option<u32>| {
                let config = config.unwrap_or(default.map(OneOrMany::One));
                generation.flatten().or(config).map_or_else(Vec::new, Vec::from)
            };
        self.eos = choose(generation.eos_token_id, config.eos_token_id, defaults.eos);
        self.bos = choose(generation.bos_token_id, config.bos_token_id, defaults.bos).first().copied();
        self
    }

    /// The width of all query heads together.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The width of all key heads together, and of all value heads.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// The number of query heads that share a key and value head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// The factor on the products of queries and keys, `1 / sqrt(head_dim)`.
    pub fn attention_scale(&self) -> f64 {
        1.0 / (self.head_dim as f64).sqrt()
    }
}

fn head_dim(raw: &RawConfig, family: Family, hidden: usize, heads: usize) -> Result<usize, ConfigFault> {
    // GPT-NeoX has no such field: a stray one is ignored.
    let given = raw.head_dim.filter(|_| family != Family::GptNeox).or(family.defaults().head_dim);
    if given.is_none() {
        multiple("hidden_size", hidden, "num_attention_heads", heads)?;
    }
    dimension("head_dim", Some(given.unwrap_or(hidden / heads)), HEAD_DIM_MAX)
}

/// Absent takes the family's default; an explicit `null` means one for each query head.
fn kv_heads(raw: &RawConfig, family: Family, heads: usize) -> Result<usize, ConfigFault> {
    if family == Family::GptNeox {
        return Ok(heads);
    }
    let given = raw.num_key_value_heads.unwrap_or(family.defaults().kv_heads).unwrap_or(heads);
    let kv_heads = dimension("num_key_value_heads", Some(given), HEADS_MAX)?;
    multiple("num_attention_heads", heads, "num_key_value_heads", kv_heads)?;
    Ok(kv_heads)
}

fn norm(raw: &RawConfig, family: Family) -> Result<Norm, ConfigFault> {
    let (kind, field, eps) = match family {
        Family::GptNeox => (NormKind::Layer, "layer_norm_eps", raw.layer_norm_eps),
        _ => (NormKind::Rms, "rms_norm_eps", raw.rms_norm_eps),
    };
    let eps = in_range(field, eps.unwrap_or(family.defaults().eps), 0.0, 1.0)?;
    Ok(Norm { kind, eps })
}
