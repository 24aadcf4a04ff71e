//! Checkpoints of a few kilobytes, which are as whole as large ones.

use serde_json::{Map, Value, json};

/// A checkpoint in two texts and the bytes of its tensors.
pub(crate) struct Tiny {
    /// `config.json`.
    pub(crate) config: String,
    /// `generation_config.json`.
    pub(crate) generation: &'static str,
    /// `model.safetensors`.
    pub(crate) tensors: Vec<u8>,
}

/// The width of the residual stream, and all other sizes but those of heads.
pub(crate) const WIDTH: usize = 8;

const GENERATION: &str = r#"{"eos_token_id": [2, 3], "bos_token_id": 1}"#;

/// One of each way to name and shape tensors, and one with a window on some layers, which no GGUF file can say.
pub(crate) fn all() -> [Tiny; 4] {
    let windows = json!({
        "layer_types": ["full_attention", "sliding_attention"], "use_sliding_window": true, "sliding_window": 4,
    });
    [llama(), qwen(&json!({})), neox(), qwen(&windows)]
}

/// Those that can be written as GGUF files.
pub(crate) fn convertible() -> [Tiny; 3] {
    let [llama, qwen, neox, _] = all();
    [llama, qwen, neox]
}

/// A model whose head is its embedding.
pub(crate) fn llama() -> Tiny {
    let rope = json!({
        "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8,
        "rope_type": "llama3",
    });
    let config =
        config("llama", &[&json!({ "rope_scaling": rope, "tie_word_embeddings": true, "espalier_exits": [1, 2] })]);
    let layers = (0..2).flat_map(|layer| split_layer(layer, &[]));
    Tiny { config, generation: GENERATION, tensors: file("F32", ends(false).into_iter().chain(layers)) }
}

fn qwen(windows: &Value) -> Tiny {
    let yarn = json!({ "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8 });
    let config = config("qwen3", &[&json!({ "rope_scaling": yarn }), windows]);
    let norms = ["self_attn.q_norm", "self_attn.k_norm"];
    let layers = (0..2).flat_map(|layer| split_layer(layer, &norms));
    Tiny { config, generation: GENERATION, tensors: file("BF16", ends(true).into_iter().chain(layers)) }
}

fn neox() -> Tiny {
    let config = config("gpt_neox", &[&json!({ "hidden_act": "gelu", "rotary_pct": 0.5, "layer_norm_eps": 1e-5 })]);
    let with_bias = |name: String, shape: Vec<usize>| {
        let bias = Listed { name: format!("{name}.bias"), shape: shape[..1].to_vec() };
        [Listed { name: format!("{name}.weight"), shape }, bias]
    };
    let layer = |layer: usize| {
        let maps = [
            ("input_layernorm", vec![WIDTH]),
            ("post_attention_layernorm", vec![WIDTH]),
            ("attention.query_key_value", vec![3 * WIDTH, WIDTH]),
            ("attention.dense", vec![WIDTH, WIDTH]),
            ("mlp.dense_h_to_4h", vec![WIDTH, WIDTH]),
            ("mlp.dense_4h_to_h", vec![WIDTH, WIDTH]),
        ];
        maps.map(|(name, shape)| with_bias(format!("gpt_neox.layers.{layer}.{name}"), shape)).into_iter().flatten()
    };
    let ends = ["gpt_neox.embed_in", "embed_out"].map(|name| square(&format!("{name}.weight")));
    let norm = with_bias("gpt_neox.final_layer_norm".to_owned(), vec![WIDTH]);
    let tensors = ends.into_iter().chain(norm).chain((0..2).flat_map(layer));
    Tiny { config, generation: GENERATION, tensors: file("F16", tensors) }
}

fn config(model_type: &str, more: &[&Value]) -> String {
    let mut config = json!({
        "model_type": model_type, "hidden_size": WIDTH, "intermediate_size": WIDTH, "vocab_size": WIDTH,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": WIDTH / 2,
        "max_position_embeddings": 16, "eos_token_id": 2, "bos_token_id": 1,
    });
    for (field, value) in more.iter().filter_map(|more| more.as_object()).flatten() {
        config[field] = value.clone();
    }
    config.to_string()
}

/// A tensor of a file.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
}

fn square(name: &str) -> Listed {
    Listed { name: name.to_owned(), shape: vec![WIDTH, WIDTH] }
}

fn ends(head: bool) -> Vec<Listed> {
    let norm = Listed { name: "model.norm.weight".to_owned(), shape: vec![WIDTH] };
    let head = head.then(|| square("lm_head.weight"));
    [square("model.embed_tokens.weight"), norm].into_iter().chain(head).collect()
}

/// A layer of the architectures that have queries, keys and values apart, with norms of heads.
pub(crate) fn split_layer(layer: usize, head_norms: &[&str]) -> Vec<Listed> {
    let name = |relative: &str| format!("model.layers.{layer}.{relative}.weight");
    let norm = |relative: &str, width| Listed { name: name(relative), shape: vec![width] };
    let map = |relative: &str, outputs| Listed { name: name(relative), shape: vec![outputs, WIDTH] };
    let norms = ["input_layernorm", "post_attention_layernorm"].map(|relative| norm(relative, WIDTH));
    let wide = ["self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"];
    let narrow = ["self_attn.k_proj", "self_attn.v_proj"];
    let heads = head_norms.iter().map(|relative| norm(relative, WIDTH / 2));
    let wide = wide.iter().map(|relative| map(relative, WIDTH));
    let narrow = narrow.iter().map(|relative| map(relative, WIDTH / 2));
    norms.into_iter().chain(wide).chain(narrow).chain(heads).collect()
}

/// A safetensors file of small numbers.
pub(crate) fn file(dtype: &str, tensors: impl Iterator<Item = Listed>) -> Vec<u8> {
    let element = |at: usize| {
        // From -1 to 1 in steps of 0.25, which all types have.
        let number = (at * 5 % 9) as f32 / 4.0 - 1.0;
        match dtype {
            "F32" => number.to_le_bytes().to_vec(),
            "BF16" => number.to_le_bytes()[2..].to_vec(),
            // 1.0 of 16 bits, or -1.0.
            _ => if number < 0.0 { [0, 0xbc] } else { [0, 0x3c] }.to_vec(),
        }
    };
    let (mut header, mut data) = (Map::new(), Vec::new());
    for Listed { name, shape } in tensors {
        let start = data.len();
        data.extend((0..shape.iter().product()).flat_map(element));
        header.insert(name, json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] }));
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}
