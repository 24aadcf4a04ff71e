#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A small configuration of a family with `changes` on top; a change to `absent` removes the field.
fn text(model_type: &str, changes: Value) -> String {
    let mut config = json!({
        "model_type": model_type, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 160,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "max_position_embeddings": 512,
    });
    for (field, value) in changes.as_object().unwrap() {
        if *value == json!("absent") {
            config.as_object_mut().unwrap().remove(field);
        } else {
            config[field] = value.clone();
        }
    }
    config.to_string()
}

fn parse(model_type: &str, changes: Value) -> ModelConfig {
    ModelConfig::parse(&text(model_type, changes), None).unwrap()
}

fn fault(model_type: &str, changes: Value) -> String {
    ModelConfig::parse(&text(model_type, changes), None).unwrap_err().to_string()
}

fn scaling(rope: Value) -> RopeScaling {
    parse("llama", json!({ "rope_scaling": rope })).rope.scaling
}

#[test]
fn families_differ_where_transformers_says() {
    let flags = |config: &ModelConfig| (config.qkv_bias, config.o_bias, config.mlp_bias, config.qk_norm);
    let of = |family: &str| parse(family, json!({ "sliding_window": null }));
    assert_eq!(flags(&of("llama")), (false, false, false, false));
    assert_eq!(flags(&of("mistral")), (false, false, false, false));
    assert_eq!(flags(&of("qwen2")), (true, false, false, false));
    assert_eq!(flags(&of("qwen3")), (false, false, false, true));
    assert_eq!(flags(&of("gpt_neox")), (true, true, true, false));
    for family in Family::KNOWN {
        let (config, neox) = (of(family), *family == "gpt_neox");
        assert!(!config.tied);
        assert_eq!((config.gated_mlp, config.parallel_residual), (!neox, neox));
        assert_eq!(config.norm.kind, if neox { NormKind::Layer } else { NormKind::Rms });
        assert_eq!(config.activation, if neox { Activation::Gelu } else { Activation::Silu });
        assert_eq!(config.rope.rotary_dim, if neox { 4 } else { 16 });
    }
}

#[test]
fn biases_follow_the_flags_of_families_that_have_them() {
    let bias = json!({ "attention_bias": true, "mlp_bias": true });
    let flags = |config: ModelConfig| (config.qkv_bias, config.o_bias, config.mlp_bias);
    assert_eq!(flags(parse("llama", bias.clone())), (true, true, true));
    assert_eq!(flags(parse("qwen3", bias.clone())), (true, true, false));
    assert_eq!(flags(parse("mistral", bias.clone())), (false, false, false));
    assert_eq!(flags(parse("qwen2", bias)), (true, false, false));
    assert_eq!(flags(parse("gpt_neox", json!({ "attention_bias": false }))), (false, false, true));
}

#[test]
fn head_sizes_have_their_defaults() {
    let head_dim = |family, value: Value| parse(family, json!({ "head_dim": value })).head_dim;
    assert_eq!(head_dim("llama", json!(null)), 16);
    assert_eq!(head_dim("mistral", json!("absent")), 16);
    assert_eq!(head_dim("llama", json!(24)), 24);
    assert_eq!(head_dim("qwen3", json!("absent")), 128);
    assert_eq!(head_dim("gpt_neox", json!(24)), 16);
}

#[test]
fn absent_and_null_key_value_heads_differ() {
    let kv_heads = |family, value: Value| {
        parse(
            family,
            json!({ "hidden_size": 64, "num_attention_heads": 32, "num_key_value_heads": value, "rotary_pct": 1.0 }),
        )
        .kv_heads
    };
    assert_eq!(kv_heads("llama", json!("absent")), 32);
    assert_eq!(kv_heads("mistral", json!("absent")), 8);
    assert_eq!(kv_heads("mistral", json!(null)), 32);
    assert_eq!(kv_heads("gpt_neox", json!(2)), 32);
}

#[test]
fn windows_are_those_of_transformers() {
    let windows = |family, changes| parse(family, changes).windows;
    assert_eq!(windows("mistral", json!({})), [Some(4096); 4]);
    assert_eq!(windows("mistral", json!({ "sliding_window": null })), [None; 4]);
    assert_eq!(windows("mistral", json!({ "sliding_window": 8 })), [Some(8); 4]);
    assert_eq!(windows("llama", json!({ "sliding_window": 8 })), [None; 4]);
    assert_eq!(windows("qwen2", json!({ "sliding_window": 8 })), [None; 4]);
    let from_layer_2 = json!({ "sliding_window": 8, "use_sliding_window": true, "max_window_layers": 2 });
    assert_eq!(windows("qwen3", from_layer_2), [None, None, Some(8), Some(8)]);
    let types = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"];
    let by_type = json!({ "sliding_window": 8, "use_sliding_window": true, "layer_types": types });
    assert_eq!(windows("qwen2", by_type), [Some(8), None, None, Some(8)]);
}

#[test]
fn rope_variants_are_read_in_both_notations() {
    assert_eq!(scaling(json!(null)), RopeScaling::Default);
    assert_eq!(scaling(json!({ "type": "linear", "factor": 2 })), RopeScaling::Linear { factor: 2.0 });
    assert_eq!(scaling(json!({ "rope_type": "dynamic", "type": "dynamic", "factor": 2.0 })), RopeScaling::Default);
    let llama3 = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    });
    let expected = Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 64.0 };
    assert_eq!(scaling(llama3.clone()), RopeScaling::Llama3(expected.clone()));

    let mut new_style = llama3;
    new_style["rope_theta"] = json!(5e5);
    let rope = parse("llama", json!({ "rope_parameters": new_style })).rope;
    assert_eq!(rope, RopeConfig { theta: 5e5, rotary_dim: 16, scaling: RopeScaling::Llama3(expected) });
}

#[test]
fn yarn_infers_what_is_not_given() {
    let yarn = |changes: Value| {
        let mut rope = json!({ "rope_type": "yarn", "factor": 4.0 });
        rope.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        match scaling(rope) {
            RopeScaling::Yarn(yarn) => yarn,
            other => panic!("{other:?}"),
        }
    };
    let plain = yarn(json!({}));
    assert_eq!((plain.beta_fast, plain.beta_slow, plain.truncate, plain.original_context), (32.0, 1.0, true, 512.0));
    assert_eq!(plain.attention_factor, 0.1 * 4f64.ln() + 1.0);
    assert_eq!(yarn(json!({ "attention_factor": 1.5, "mscale": 2.0, "mscale_all_dim": 1.0 })).attention_factor, 1.5);
    let ratio = (0.2 * 4f64.ln() + 1.0) / (0.1 * 4f64.ln() + 1.0);
    assert_eq!(yarn(json!({ "mscale": 2.0, "mscale_all_dim": 1.0 })).attention_factor, ratio);
    assert_eq!(yarn(json!({ "mscale": 2.0, "mscale_all_dim": 0.0 })).attention_factor, plain.attention_factor);
}

#[test]
fn partial_rotary_rounds_down() {
    let neox = |changes| parse("gpt_neox", changes).rope.rotary_dim;
    assert_eq!(neox(json!({ "rotary_pct": 0.5 })), 8);
    assert_eq!(neox(json!({ "rotary_pct": 0.5, "partial_rotary_factor": 1.0 })), 8);
    assert_eq!(neox(json!({ "partial_rotary_factor": 1.0 })), 16);
    assert_eq!(neox(json!({ "rotary_pct": 0.26 })), 4);
    assert_eq!(neox(json!({ "rope_parameters": { "partial_rotary_factor": 0.75, "rope_theta": 100 } })), 12);
    assert_eq!(parse("gpt_neox", json!({ "rotary_emb_base": 100, "rope_theta": 7 })).rope.theta, 100.0);
}

#[test]
fn the_generation_configuration_wins_for_special_tokens() {
    let special = |config: Value, generation: Option<&str>| {
        let config = ModelConfig::parse(&text("llama", config), generation).unwrap();
        (config.bos, config.eos)
    };
    let config = json!({ "bos_token_id": 5, "eos_token_id": 6 });
    assert_eq!(special(json!({}), None), (Some(1), vec![2]));
    assert_eq!(special(json!({ "eos_token_id": null }), None), (Some(1), vec![]));
    assert_eq!(special(config.clone(), Some("{}")), (Some(5), vec![6]));
    assert_eq!(special(config, Some(r#"{ "eos_token_id": [7, 8], "bos_token_id": 9 }"#)), (Some(9), vec![7, 8]));
}

#[test]
fn faults_name_the_field_the_value_and_the_limit() {
    let cases = [
        (
            json!({ "model_type": "gpt2" }),
            r#"`model_type` is "gpt2", expected one of llama, mistral, qwen2, qwen3, gpt_neox"#,
        ),
        (json!({ "model_type": "absent" }), "`model_type` is missing"),
        (json!({ "hidden_size": "absent" }), "`hidden_size` is missing"),
        (json!({ "num_hidden_layers": 0 }), "`num_hidden_layers` is 0, outside 1..=1024"),
        (json!({ "vocab_size": 1 << 25 }), "`vocab_size` is 33554432, outside 1..=16777216"),
        (
            json!({ "num_attention_heads": 5, "head_dim": null }),
            "`hidden_size` is 64, not a multiple of `num_attention_heads` = 5",
        ),
        (
            json!({ "num_key_value_heads": 3 }),
            "`num_attention_heads` is 4, not a multiple of `num_key_value_heads` = 3",
        ),
        (json!({ "rms_norm_eps": -1 }), "`rms_norm_eps` is -1, outside 0..=1"),
        (json!({ "rope_theta": 0.5 }), "`rope_theta` is 0.5, outside 1.001..=1000000000000000"),
        (json!({ "head_dim": 15 }), "15 of 15 head dimensions would be rotated, expected an even number from 2 to 15"),
        (
            json!({ "rope_scaling": { "type": "longrope" } }),
            r#"`rope_type` is "longrope", expected one of default, linear, dynamic, llama3, divided, yarn"#,
        ),
        (json!({ "rope_scaling": { "factor": 2.0 } }), "`rope_type` is missing"),
        (json!({ "rope_scaling": { "type": "linear", "factor": 0 } }), "`factor` is 0, outside 0.000001..=1000000"),
        (
            json!({ "quantization_config": {} }),
            "`quantization_config` is present: quantized checkpoints are not supported",
        ),
        (
            json!({ "model_type": "qwen2", "layer_types": ["full_attention"] }),
            "`layer_types` has 1 entries for 4 layers",
        ),
        (
            json!({ "model_type": "qwen3", "layer_types": vec!["sliding_attention"; 4] }),
            "layer 0 has sliding attention, but `sliding_window` is off",
        ),
    ];
    for (changes, expected) in cases {
        assert_eq!(fault("llama", changes), expected);
    }
    assert!(
        fault("llama", json!({ "hidden_act": "mish" }))
            .starts_with(r#"`hidden_act` is "mish", expected one of silu, "#)
    );
    assert!(fault("llama", json!({ "hidden_size": -64 })).contains("-64"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}", generation in "\\PC{0,20}") {
        let _ = ModelConfig::parse(&text, Some(&generation));
    }

    #[test]
    fn no_number_panics(field in 0usize..8, value in any::<i64>(), family in 0usize..5) {
        let fields = [
            "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "num_hidden_layers", "vocab_size",
            "max_position_embeddings", "sliding_window",
        ];
        let text = text(Family::KNOWN[family], json!({ fields[field]: value % 100_000 }));
        if let Ok(config) = ModelConfig::parse(&text, None) {
            prop_assert!(config.heads.is_multiple_of(config.kv_heads));
            prop_assert!(config.rope.rotary_dim.is_multiple_of(2) && config.rope.rotary_dim <= config.head_dim);
            prop_assert_eq!(config.windows.len(), config.layers);
        }
    }
}
