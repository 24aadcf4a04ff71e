//! What each architecture calls its tensors.

use crate::config::Family;

/// The names of one naming scheme; those of a layer are relative to its prefix, and all lack `.weight` and `.bias`.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) embedding: &'static str,
    pub(crate) final_norm: &'static str,
    pub(crate) head: &'static str,
    layers: &'static str,
    pub(crate) input_norm: &'static str,
    pub(crate) post_norm: &'static str,
    pub(crate) attention: AttentionNames,
    pub(crate) o: &'static str,
    pub(crate) q_norm: &'static str,
    pub(crate) k_norm: &'static str,
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    /// Norm, keys and values of another model's hidden states, where they have their own.
    pub(crate) states: [&'static str; 3],
}

/// How the query, key and value projections are stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AttentionNames {
    /// Three matrices.
    Split { q: &'static str, k: &'static str, v: &'static str },
    /// One matrix whose rows are, head by head, the query's, the key's and the value's.
    Fused(&'static str),
}

const LLAMA: Names = Names {
    embedding: "model.embed_tokens",
    final_norm: "model.norm",
    head: "lm_head",
    layers: "model.layers",
    input_norm: "input_layernorm",
    post_norm: "post_attention_layernorm",
    attention: AttentionNames::Split { q: "self_attn.q_proj", k: "self_attn.k_proj", v: "self_attn.v_proj" },
    o: "self_attn.o_proj",
    q_norm: "self_attn.q_norm",
    k_norm: "self_attn.k_norm",
    gate: "mlp.gate_proj",
    up: "mlp.up_proj",
    down: "mlp.down_proj",
    states: ["states_norm", "self_attn.k_states_proj", "self_attn.v_states_proj"],
};

const GPT_NEOX: Names = Names {
    embedding: "gpt_neox.embed_in",
    final_norm: "gpt_neox.final_layer_norm",
    head: "embed_out",
    layers: "gpt_neox.layers",
    attention: AttentionNames::Fused("attention.query_key_value"),
    o: "attention.dense",
    up: "mlp.dense_h_to_4h",
    down: "mlp.dense_4h_to_h",
    ..LLAMA
};

impl Names {
    /// Those of GGUF for Llama and its kin.
    pub(crate) const GGUF: Self = Names {
        embedding: "token_embd",
        final_norm: "output_norm",
        head: "output",
        layers: "blk",
        input_norm: "attn_norm",
        post_norm: "ffn_norm",
        attention: AttentionNames::Split { q: "attn_q", k: "attn_k", v: "attn_v" },
        o: "attn_output",
        q_norm: "attn_q_norm",
        k_norm: "attn_k_norm",
        gate: "ffn_gate",
        up: "ffn_up",
        down: "ffn_down",
        ..LLAMA
    };

    /// Those of GGUF for GPT-NeoX.
    pub(crate) const GGUF_NEOX: Self = Names { attention: AttentionNames::Fused("attn_qkv"), ..Self::GGUF };

    pub(crate) fn of(family: Family) -> &'static Self {
        match family {
            Family::Llama | Family::Mistral | Family::Qwen2 | Family::Qwen3 => &LLAMA,
            Family::GptNeox => &GPT_NEOX,
        }
    }

    /// The full name of one of layer `layer`'s tensors.
    pub(crate) fn in_layer(&self, layer: usize, name: &str) -> String {
        format!("{}.{layer}.{name}", self.layers)
    }
}
