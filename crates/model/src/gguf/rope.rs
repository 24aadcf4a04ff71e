//! The rotary embedding, from the metadata of a GGUF file.

use espalier_gguf::{GgufFile, Tensor};
use serde_json::{Value, json};

use super::architecture::Architecture;
use super::fault::GgufFault;
use super::fields::{Fields, fields};
use super::keys::Keys;
use super::own_keys;

/// The tensor that holds a divisor for each pair of rotated dimensions.
pub(super) const FREQUENCY_FACTORS: &str = "rope_freqs.weight";

/// What llama.cpp takes where a file says nothing.
const THETA: f64 = 10_000.0;

/// Entries that change YaRN's scale on the attention, or its blend, in ways that `config.json` cannot say.
const YARN_REFUSED: [&str; 4] = [
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
];

pub(super) fn fields_of(keys: &Keys<'_>, file: &GgufFile, head_dim: usize) -> Result<Fields, GgufFault> {
    let rotary = keys.optional("rope.dimension_count")?.unwrap_or(head_dim);
    if keys.architecture == Architecture::Llama && rotary != head_dim {
        return Err(keys.unsupported("rope.dimension_count", &rotary, "a rotation of whole heads"));
    }
    Ok(fields([
        ("rope_theta", json!(keys.optional_float("rope.freq_base")?.unwrap_or(THETA))),
        ("partial_rotary_factor", json!(fraction(rotary, head_dim))),
        ("rope_scaling", scaling(keys, file, rotary / 2)?),
    ]))
}

/// The share of a head that is rotated: rounded down, this share of a head has `rotary` dimensions again.
fn fraction(rotary: usize, head_dim: usize) -> f64 {
    let share = rotary as f64 / head_dim as f64;
    if (share * head_dim as f64) as usize == rotary { share } else { share.next_up() }
}

fn scaling(keys: &Keys<'_>, file: &GgufFile, pairs: usize) -> Result<Value, GgufFault> {
    let kind: Option<&str> = keys.optional("rope.scaling.type")?;
    if let Some(factors) = file.tensor(FREQUENCY_FACTORS) {
        return match kind {
            None | Some("none") => divided(keys, &factors, pairs),
            Some(other) => Err(GgufFault::RopeFactors { scaling: other.to_owned() }),
        };
    }
    let factor = given(keys.optional_float("rope.scaling.factor")?);
    match (kind, factor) {
        (None | Some("none"), None) => linear(given(keys.optional_float("rope.scale_linear")?)),
        (None | Some("none"), Some(factor)) => {
            Err(keys.unsupported("rope.scaling.factor", &factor, "one with a `rope.scaling.type` that has factors"))
        }
        (Some("linear"), factor) => linear(factor),
        (Some("yarn"), _) => yarn(keys),
        (Some(other), _) => Err(keys.unsupported("rope.scaling.type", &format!("{other:?}"), "none, linear or yarn")),
    }
}

/// 0 says that there is no factor, and 1 changes nothing.
fn given(factor: Option<f64>) -> Option<f64> {
    factor.filter(|&factor| factor != 0.0 && factor != 1.0)
}

fn linear(factor: Option<f64>) -> Result<Value, GgufFault> {
    Ok(factor.map_or(Value::Null, |factor| json!({ "rope_type": "linear", "factor": factor })))
}

fn yarn(keys: &Keys<'_>) -> Result<Value, GgufFault> {
    if let Some(found) = YARN_REFUSED.into_iter().find(|key| keys.metadata.get(&keys.name(key)).is_some()) {
        return Err(keys.unsupported(found, &"given", "YaRN without it"));
    }
    Ok(json!({
        "rope_type": "yarn",
        "factor": keys.float("rope.scaling.factor")?,
        "original_max_position_embeddings": keys.required::<usize>("rope.scaling.original_context_length")?,
        "beta_fast": keys.optional_float("rope.scaling.yarn_beta_fast")?,
        "beta_slow": keys.optional_float("rope.scaling.yarn_beta_slow")?,
    }))
}

/// Llama 3's scaling where the file says how its factors were made, or else the factors themselves.
fn divided(keys: &Keys<'_>, factors: &Tensor<'_>, pairs: usize) -> Result<Value, GgufFault> {
    let shape = factors.info().shape();
    if shape != [pairs] {
        return Err(GgufFault::RopeFactorsShape { found: shape.to_vec(), pairs });
    }
    let mut scaling = fields([("rope_type", json!("llama3"))]);
    for (key, field) in own_keys::LLAMA3 {
        let Some(value) = keys.metadata.optional::<f64>(key)? else {
            return Ok(json!({ "rope_type": "divided", "divisors": factors.to_f32() }));
        };
        scaling.insert(field.to_owned(), json!(value));
    }
    Ok(Value::Object(scaling))
}
