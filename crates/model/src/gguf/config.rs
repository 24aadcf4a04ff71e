//! What `config.json` would say of a model, from the metadata of its GGUF file.

use espalier_gguf::{Gguf, GgufFile};
use serde_json::{Value, json};

use super::architecture::Architecture;
use super::fault::GgufFault;
use super::fields::{Fields, fields};
use super::keys::Keys;
use super::{own_keys, rope};

/// Entries that change what is computed in ways that are not implemented.
const REFUSED: [&str; 9] = [
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.sliding_window_pattern",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
];

/// A model's `config.json`.
pub(super) fn describe(keys: &Keys<'_>, file: &GgufFile) -> Result<Value, GgufFault> {
    refuse(keys)?;
    let header = file.header();
    let sizes = Sizes::read(keys, header)?;
    let parts = [
        sizes.fields(keys)?,
        norm(keys)?,
        biases(keys, header),
        window(keys, sizes.context)?,
        rope::fields_of(keys, file, sizes.head_dim)?,
        special(keys)?,
    ];
    Ok(Value::Object(parts.into_iter().flatten().collect()))
}

fn refuse(keys: &Keys<'_>) -> Result<(), GgufFault> {
    if let Some(found) = REFUSED.into_iter().find(|key| keys.metadata.get(&keys.name(key)).is_some()) {
        return Err(keys.unsupported(found, &"given", "a model without it"));
    }
    match keys.optional::<usize>("expert_count")? {
        Some(experts) if experts > 0 => Err(keys.unsupported("expert_count", &experts, "a model without experts")),
        _ => Ok(()),
    }
}

/// The sizes that others are checked against.
struct Sizes {
    hidden: usize,
    heads: usize,
    head_dim: usize,
    context: usize,
    vocab: usize,
}

impl Sizes {
    fn read(keys: &Keys<'_>, header: &Gguf) -> Result<Self, GgufFault> {
        let (hidden, heads) = (keys.required("embedding_length")?, keys.required("attention.head_count")?);
        let rows = || header.info("token_embd.weight")?.shape().first().copied();
        Ok(Self {
            hidden,
            heads,
            head_dim: head_dim(keys, usize::checked_div(hidden, heads).unwrap_or(0))?,
            context: keys.required("context_length")?,
            vocab: keys.optional("vocab_size")?.or_else(rows).unwrap_or(0),
        })
    }

    fn fields(&self, keys: &Keys<'_>) -> Result<Fields, GgufFault> {
        let kv_heads = keys.optional("attention.head_count_kv")?.unwrap_or(self.heads);
        Ok(fields([
            ("vocab_size", json!(self.vocab)),
            ("hidden_size", json!(self.hidden)),
            ("intermediate_size", json!(keys.required::<usize>("feed_forward_length")?)),
            ("num_hidden_layers", json!(keys.required::<usize>("block_count")?)),
            ("num_attention_heads", json!(self.heads)),
            ("num_key_value_heads", json!(kv_heads)),
            ("head_dim", json!(self.head_dim)),
            ("max_position_embeddings", json!(self.context)),
        ]))
    }
}

/// The size of a head, which is an even share of the width unless it is given.
fn head_dim(keys: &Keys<'_>, share: usize) -> Result<usize, GgufFault> {
    let head_dim = keys.optional("attention.key_length")?.unwrap_or(share);
    match keys.optional::<usize>("attention.value_length")? {
        Some(values) if values != head_dim => {
            Err(keys.unsupported("attention.value_length", &values, "one size of keys and values"))
        }
        _ if keys.architecture == Architecture::GptNeox && head_dim != share => {
            Err(keys.unsupported("attention.key_length", &head_dim, "an even share of `gptneox.embedding_length`"))
        }
        _ => Ok(head_dim),
    }
}

fn norm(keys: &Keys<'_>) -> Result<Fields, GgufFault> {
    Ok(match keys.architecture {
        Architecture::GptNeox => {
            let parallel = keys.optional("use_parallel_residual")?.unwrap_or(true);
            let eps = keys.float("attention.layer_norm_epsilon")?;
            fields([("layer_norm_eps", json!(eps)), ("use_parallel_residual", json!(parallel))])
        }
        _ => fields([("rms_norm_eps", json!(keys.float("attention.layer_norm_rms_epsilon")?))]),
    })
}

/// What the metadata do not say, but the tensors show.
fn biases(keys: &Keys<'_>, header: &Gguf) -> Fields {
    let attention = if keys.architecture == Architecture::GptNeox { "attn_qkv" } else { "attn_q" };
    let has = |name: &str| json!(header.info(&format!("blk.0.{name}.bias")).is_some());
    let tied = header.info("output.weight").is_none();
    fields([("attention_bias", has(attention)), ("mlp_bias", has("ffn_up")), ("tie_word_embeddings", json!(tied))])
}

/// The model's type, on which it depends which layers a window is on. One that holds the whole context is none.
fn window(keys: &Keys<'_>, context: usize) -> Result<Fields, GgufFault> {
    let size = keys.optional::<usize>("attention.sliding_window")?.filter(|&size| size > 0 && size < context);
    let family = match (keys.architecture, size) {
        (Architecture::Llama, Some(_)) => "mistral",
        (Architecture::GptNeox, None) => "gpt_neox",
        (architecture, None) => architecture.name(),
        (_, Some(size)) => {
            let supported = "a window that holds the whole context, as it is not said which layers have it,";
            return Err(keys.unsupported("attention.sliding_window", &size, supported));
        }
    };
    Ok(fields([("model_type", json!(family)), ("sliding_window", json!(size))]))
}

/// The tokens that begin and end a text, and the exits of a drafter.
fn special(keys: &Keys<'_>) -> Result<Fields, GgufFault> {
    let metadata = keys.metadata;
    let token = |kind: &str| metadata.optional::<u32>(&format!("tokenizer.ggml.{kind}_token_id"));
    let ends = match metadata.optional::<&[u32]>(own_keys::EOS)? {
        Some(ends) => ends.to_vec(),
        None => {
            let mut ends = Vec::new();
            for end in [token("eos")?, token("eot")?, token("eom")?].into_iter().flatten() {
                if !ends.contains(&end) {
                    ends.push(end);
                }
            }
            ends
        }
    };
    let ends = if ends.is_empty() { Value::Null } else { json!(ends) };
    let mut special = fields([("eos_token_id", ends), ("bos_token_id", json!(token("bos")?))]);
    if let Some(exits) = metadata.optional::<&[u32]>(own_keys::EXITS)? {
        special.insert("espalier_exits".to_owned(), json!(exits));
    }
    Ok(special)
}
