//! Which rotary embedding a configuration asks for.

use super::checks::{self, in_range};
use super::family::Family;
use super::fault::ConfigFault;
use super::raw::{RawConfig, RawRope};

/// A rotary position embedding: how many dimensions of a head turn, and how fast.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    /// The base of the geometric series of wavelengths, above 1.
    pub theta: f64,
    /// The leading dimensions of every head that are rotated: even, from 2 to the size of a head.
    pub rotary_dim: usize,
    /// How the frequencies are stretched beyond the context of the first training.
    pub scaling: RopeScaling,
}

/// A stretch of the rotary frequencies, named as `rope_type` names it.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// `default`: none. Also `dynamic`, which leaves the frequencies alone up to `max_position_embeddings`, and that is
    /// where [`ModelConfig::context`](super::ModelConfig::context) ends.
    Default,
    /// `linear`: every frequency divided by one factor.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// `llama3`: long wavelengths divided by a factor, short ones kept, those between blended.
    Llama3(Llama3),
    /// `divided`, this program's own name: each frequency divided by a factor of its own, as GGUF files of Llama 3 have it.
    Divided {
        /// The divisor of each pair of rotated dimensions.
        divisors: Vec<f32>,
    },
    /// `yarn` (YaRN paper, §3): interpolation of slow dimensions, none of fast ones, and a scale on the attention.
    Yarn(Yarn),
}

/// The parameters of [`RopeScaling::Llama3`].
#[derive(Debug, Clone, PartialEq)]
pub struct Llama3 {
    /// The divisor of the long wavelengths.
    pub factor: f64,
    /// Wavelengths above `original_context / low_freq_factor` are long.
    pub low_freq_factor: f64,
    /// Wavelengths below `original_context / high_freq_factor` are short.
    pub high_freq_factor: f64,
    /// The context of the first training, in tokens.
    pub original_context: f64,
}

/// The parameters of [`RopeScaling::Yarn`].
#[derive(Debug, Clone, PartialEq)]
pub struct Yarn {
    /// The divisor of the slow dimensions.
    pub factor: f64,
    /// The factor on cosine and sine.
    pub attention_factor: f64,
    /// Dimensions that turn at least this often over the original context are kept.
    pub beta_fast: f64,
    /// Dimensions that turn at most this often over the original context are interpolated in full.
    pub beta_slow: f64,
    /// The context of the first training, in tokens.
    pub original_context: f64,
    /// Whether the bounds of the blended dimensions are rounded outwards to whole dimensions.
    pub truncate: bool,
}

impl Yarn {
    /// The factor on cosine and sine of the paper, which holds where no other is given.
    pub(crate) fn attention_factor_of(factor: f64) -> f64 {
        attention_scale(factor, 1.0)
    }
}

/// How attention is scaled for a stretch by `factor`.
fn attention_scale(factor: f64, weight: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * weight * factor.ln() + 1.0 }
}

impl RopeScaling {
    /// The values that `rope_type` may have.
    pub const KNOWN: &[&str] = &["default", "linear", "dynamic", "llama3", "divided", "yarn"];
}

/// At 1 all pairs would turn alike, and YaRN's bounds would be infinite.
const THETA_MIN: f64 = 1.001;
const THETA_MAX: f64 = 1e15;
const FACTOR_MAX: f64 = 1e6;
const CONTEXT_MAX: f64 = checks::CONTEXT_MAX as f64;

pub(super) fn parse(
    raw: &RawConfig,
    family: Family,
    head_dim: usize,
    context: usize,
) -> Result<RopeConfig, ConfigFault> {
    let empty = RawRope::default();
    // As in transformers 5: an old-style `rope_scaling` beside a new-style `rope_parameters` wins.
    let new = raw.rope_parameters.as_ref();
    let rope = raw.rope_scaling.as_ref().or(new).unwrap_or(&empty);
    let new = new.unwrap_or(&empty);
    let rotary_dim = rotary_dim(raw, rope.partial_rotary_factor.or(new.partial_rotary_factor), family, head_dim)?;
    Ok(RopeConfig {
        theta: theta(raw, rope.rope_theta.or(new.rope_theta), family)?,
        rotary_dim,
        scaling: match rope.name() {
            Some("divided") => RopeScaling::Divided { divisors: divisors(rope, rotary_dim / 2)? },
            name => scaling(name, rope, context as f64)?,
        },
    })
}

/// A divisor for each pair of rotated dimensions.
fn divisors(rope: &RawRope, pairs: usize) -> Result<Vec<f32>, ConfigFault> {
    let divisors = rope.divisors.as_deref().ok_or(ConfigFault::Missing { field: "divisors" })?;
    if divisors.len() != pairs {
        return Err(ConfigFault::Divisors { found: divisors.len(), pairs });
    }
    divisors.iter().map(|&divisor| Ok(in_range("divisors", divisor, 1e-6, FACTOR_MAX)? as f32)).collect()
}

fn theta(raw: &RawConfig, nested: Option<f64>, family: Family) -> Result<f64, ConfigFault> {
    let (field, top) = match family {
        Family::GptNeox => ("rotary_emb_base", raw.rotary_emb_base.or(raw.rope_theta)),
        _ => ("rope_theta", raw.rope_theta),
    };
    let theta = nested.or(top).unwrap_or(10_000.0);
    in_range(field, theta, THETA_MIN, THETA_MAX)
}

fn rotary_dim(raw: &RawConfig, nested: Option<f64>, family: Family, head_dim: usize) -> Result<usize, ConfigFault> {
    let (field, top) = match family {
        Family::GptNeox => ("rotary_pct", raw.rotary_pct.or(raw.partial_rotary_factor)),
        _ => ("partial_rotary_factor", raw.partial_rotary_factor),
    };
    let fraction = nested.or(top).unwrap_or(family.defaults().rotary_fraction);
    let fraction = in_range(field, fraction, 0.0, 1.0)?;
    // Rounded down, as Python's `int` does.
    let found = (head_dim as f64 * fraction) as usize;
    if found < 2 || !found.is_multiple_of(2) {
        return Err(ConfigFault::RotaryDim { found, head_dim });
    }
    Ok(found)
}

fn scaling(name: Option<&str>, rope: &RawRope, context: f64) -> Result<RopeScaling, ConfigFault> {
    match name {
        None if rope.factor.is_some() => Err(ConfigFault::Missing { field: "rope_type" }),
        None | Some("default") => Ok(RopeScaling::Default),
        Some("dynamic") => factor(rope).map(|_| RopeScaling::Default),
        Some("linear") => Ok(RopeScaling::Linear { factor: factor(rope)? }),
        Some("llama3") => llama3(rope).map(RopeScaling::Llama3),
        Some("yarn") => yarn(rope, context).map(RopeScaling::Yarn),
        Some(other) => {
            Err(ConfigFault::Unknown { field: "rope_type", found: other.to_owned(), known: RopeScaling::KNOWN })
        }
    }
}

fn llama3(rope: &RawRope) -> Result<Llama3, ConfigFault> {
    let low_freq_factor = required("low_freq_factor", rope.low_freq_factor, 1e-6, FACTOR_MAX)?;
    // Equal bounds would leave an empty blend and divide by zero.
    let high_min = low_freq_factor * (1.0 + f64::EPSILON);
    Ok(Llama3 {
        factor: factor(rope)?,
        low_freq_factor,
        high_freq_factor: required("high_freq_factor", rope.high_freq_factor, high_min, FACTOR_MAX)?,
        original_context: required(
            "original_max_position_embeddings",
            rope.original_max_position_embeddings,
            1.0,
            CONTEXT_MAX,
        )?,
    })
}

fn yarn(rope: &RawRope, context: f64) -> Result<Yarn, ConfigFault> {
    let factor = factor(rope)?;
    let original = rope.original_max_position_embeddings.unwrap_or(context);
    Ok(Yarn {
        factor,
        attention_factor: in_range("attention_factor", attention_factor(rope, factor), 0.0, FACTOR_MAX)?,
        beta_fast: in_range("beta_fast", non_zero(rope.beta_fast).unwrap_or(32.0), 1e-6, FACTOR_MAX)?,
        beta_slow: in_range("beta_slow", non_zero(rope.beta_slow).unwrap_or(1.0), 1e-6, FACTOR_MAX)?,
        original_context: in_range("original_max_position_embeddings", original, 1.0, CONTEXT_MAX)?,
        truncate: rope.truncate.unwrap_or(true),
    })
}

/// The scale on cosine and sine: as given, else from the two `mscale`s (DeepSeek's variant), else the paper's.
fn attention_factor(rope: &RawRope, factor: f64) -> f64 {
    let scale = |weight: f64| attention_scale(factor, weight);
    let ratio =
        non_zero(rope.mscale).zip(non_zero(rope.mscale_all_dim)).map(|(above, below)| scale(above) / scale(below));
    rope.attention_factor.or(ratio).unwrap_or_else(|| Yarn::attention_factor_of(factor))
}

/// Zero means "not given" for these fields.
fn non_zero(value: Option<f64>) -> Option<f64> {
    value.filter(|&value| value != 0.0)
}

fn factor(rope: &RawRope) -> Result<f64, ConfigFault> {
    required("factor", rope.factor, 1e-6, FACTOR_MAX)
}

fn required(field: &'static str, value: Option<f64>, min: f64, max: f64) -> Result<f64, ConfigFault> {
    in_range(field, value.ok_or(ConfigFault::Missing { field })?, min, max)
}
