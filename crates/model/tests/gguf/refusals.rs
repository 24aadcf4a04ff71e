//! What cannot be run is refused with a sentence that says what, with which value.

use espalier_gguf::Array;

use super::*;

/// What opening the only file of a folder says, without the path.
fn refusal(file: &Editable) -> String {
    let folder = file.write();
    let message = Checkpoint::open(folder.path()).unwrap_err().to_string();
    let path = folder.path().join("model.gguf").display().to_string();
    message.strip_prefix(&format!("{path}: ")).unwrap().to_owned()
}

fn llama() -> Editable {
    Editable::of(&converted(&golden("llama3-rope-scaling"), None))
}

fn qwen() -> Editable {
    Editable::of(&converted(&golden("qwen3"), None))
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[test]
fn other_models_are_refused() {
    let gemma = qwen().set("general.architecture", text("gemma3"));
    assert_eq!(
        refusal(&gemma),
        "`general.architecture` is \"gemma3\", expected one of llama, qwen2, qwen3 and gptneox"
    );
    let split = qwen().set("split.count", Value::U16(3));
    let whole =
        "it is one of 3 files of a split model, and only whole ones are read; `llama-gguf-split --merge` makes one";
    assert_eq!(refusal(&split), whole);
    let experts = qwen().set("qwen3.expert_count", Value::U32(8));
    assert_eq!(refusal(&experts), "`qwen3.expert_count` is 8, and only a model without experts is run");
    let capped = qwen().set("qwen3.attn_logit_softcapping", Value::F32(30.0));
    assert_eq!(refusal(&capped), "`qwen3.attn_logit_softcapping` is given, and only a model without it is run");
    let stray = qwen().with_tensor("blk.0.attn_q.bias_of_my_own", 64);
    let expected = "it has a tensor \"blk.0.attn_q.bias_of_my_own\", which models of architecture qwen3 with its metadata do not have";
    assert_eq!(refusal(&stray), expected);
}

#[test]
fn what_is_missing_or_impossible_is_named() {
    let missing = refusal(&qwen().without("qwen3.block_count"));
    assert_eq!(missing, "the metadata have no entry \"qwen3.block_count\"");
    let eps = "qwen3.attention.layer_norm_rms_epsilon";
    let infinite = qwen().set(eps, Value::F32(f32::INFINITY));
    assert_eq!(refusal(&infinite), format!("`{eps}` is inf, which is not finite"));
    let layered = qwen().set("qwen3.attention.head_count_kv", Value::Array(Array::U32(vec![2, 2, 2, 1])));
    let expected = "metadata entry \"qwen3.attention.head_count_kv\" is array of u32, expected an integer from 0 on";
    assert_eq!(refusal(&layered), expected);
    let values = qwen().set("qwen3.attention.value_length", Value::U32(8));
    let expected = "`qwen3.attention.value_length` is 8, and only one size of keys and values is run";
    assert_eq!(refusal(&values), expected);
    let wide = qwen().set("qwen3.embedding_length", Value::U64(u64::MAX));
    assert_eq!(refusal(&wide), "`hidden_size` is 18446744073709552000, outside 1..=131072");
}

#[test]
fn windows_and_rotations_that_are_not_run_are_refused() {
    let window = qwen().set("qwen3.attention.sliding_window", Value::U32(128));
    let expected = "`qwen3.attention.sliding_window` is 128, and only a window that holds the whole context, as it is not \
                    said which layers have it, is run";
    assert_eq!(refusal(&window), expected);
    let part = llama().set("llama.rope.dimension_count", Value::U32(8));
    assert_eq!(refusal(&part), "`llama.rope.dimension_count` is 8, and only a rotation of whole heads is run");
    let long = qwen().set("qwen3.rope.scaling.type", text("longrope"));
    assert_eq!(refusal(&long), "`qwen3.rope.scaling.type` is \"longrope\", and only none, linear or yarn is run");
    let untyped = qwen().set("qwen3.rope.scaling.factor", Value::F32(4.0));
    let expected = "`qwen3.rope.scaling.factor` is 4, and only one with a `rope.scaling.type` that has factors is run";
    assert_eq!(refusal(&untyped), expected);
    let twice = refusal(&llama().set("llama.rope.scaling.type", text("linear")));
    assert_eq!(twice, "it has `rope_freqs.weight`, and its rotary frequencies are stretched besides, as \"linear\"");
    let short = refusal(&qwen().with_tensor("rope_freqs.weight", 5));
    assert_eq!(short, "`rope_freqs.weight` has shape [5], expected [8]: a factor for each pair of rotated dimensions");
    let zeros = refusal(&qwen().with_tensor("rope_freqs.weight", 8));
    assert_eq!(zeros, "`divisors` is 0, outside 0.000001..=1000000");
}

#[test]
fn frequencies_are_divided_by_the_factors_of_the_file_where_it_does_not_say_how_they_were_made() {
    let (whole, unsaid) = (llama().write(), llama().without("espalier.rope_scaling.factor").write());
    let scaling = Checkpoint::open(unsaid.path()).unwrap().config.rope.scaling;
    assert!(matches!(scaling, espalier_model::RopeScaling::Divided { .. }), "{scaling:?}");
    let off = logits(whole.path()).into_iter().zip(logits(unsaid.path())).map(|(a, b)| (a - b).abs());
    assert!(off.fold(0.0, f32::max) < 1e-4);
}

#[test]
fn shapes_are_held_against_the_metadata() {
    let folder = qwen().set("qwen3.feed_forward_length", Value::U32(128)).write();
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let fault = Decoder::load(&checkpoint, &LoadOptions::default()).err().unwrap().to_string();
    assert_eq!(fault, "blk.0.ffn_up.weight has shape [160, 64], expected [128, 64]");
}

/// The configuration that a change of the metadata makes.
fn config(file: &Editable) -> espalier_model::ModelConfig {
    Checkpoint::open(file.write().path()).unwrap().config
}

#[test]
fn metadata_say_what_config_json_would() {
    use espalier_model::{Family, RopeScaling};
    let mistral = config(&llama().set("llama.attention.sliding_window", Value::U32(128)));
    assert_eq!((mistral.family, mistral.windows), (Family::Mistral, vec![Some(128); 4]));
    let whole = config(&llama().set("llama.attention.sliding_window", Value::U32(4096)));
    assert_eq!((whole.family, whole.windows), (Family::Llama, vec![None; 4]));
    let linear =
        qwen().set("qwen3.rope.scaling.type", text("linear")).set("qwen3.rope.scaling.factor", Value::F32(4.0));
    assert_eq!(config(&linear).rope.scaling, RopeScaling::Linear { factor: 4.0 });
    let yarn = qwen()
        .set("qwen3.rope.scaling.type", text("yarn"))
        .set("qwen3.rope.scaling.factor", Value::F32(4.0))
        .set("qwen3.rope.scaling.original_context_length", Value::U32(128));
    let RopeScaling::Yarn(found) = config(&yarn).rope.scaling else { panic!("YaRN") };
    assert_eq!((found.factor, found.original_context, found.beta_fast, found.beta_slow), (4.0, 128.0, 32.0, 1.0));
    let ends = |kinds: &[(&str, u32)]| {
        let file = qwen().without("espalier.eos_token_ids").without("tokenizer.ggml.eos_token_id");
        let add = |file: Editable, &(kind, token): &(&str, u32)| {
            file.set(&format!("tokenizer.ggml.{kind}_token_id"), Value::U32(token))
        };
        config(&kinds.iter().fold(file, add)).eos
    };
    assert_eq!(ends(&[("eos", 9), ("eot", 7), ("eom", 9)]), [9, 7]);
    assert_eq!(ends(&[]), [0; 0]);
    let old = config(&qwen().without("qwen3.vocab_size").without("qwen3.rope.freq_base"));
    assert_eq!((old.vocab, old.rope.theta), (512, 10_000.0));
}

#[test]
fn a_file_needs_no_other_beside_it_and_heeds_none() {
    let folder = qwen().write();
    fs::write(folder.path().join("config.json"), "{").unwrap();
    fs::write(folder.path().join("generation_config.json"), "{").unwrap();
    assert!(Checkpoint::open(folder.path()).is_ok());
}

#[test]
fn what_gguf_cannot_say_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let from = golden("qwen3");
    let config = fs::read_to_string(from.join("config.json")).unwrap();
    fs::copy(from.join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    let fault = |from: &str, to: &str| {
        assert!(config.contains(from));
        fs::write(folder.path().join("config.json"), config.replace(from, to)).unwrap();
        let checkpoint = Checkpoint::open(folder.path()).unwrap();
        let fault = GgufExport::default().write(&checkpoint, Vec::new(), |_, _| {}).unwrap_err().to_string();
        fault.strip_prefix(&format!("{}: ", folder.path().display())).unwrap().to_owned()
    };
    let gelu = fault(r#""silu""#, r#""gelu""#);
    assert_eq!(gelu, "`hidden_act` is Gelu, which a GGUF file cannot say");
    let eps = fault("1e-05", "1.00000001e-05");
    assert_eq!(eps, "`attention.layer_norm_rms_epsilon` is 0.0000100000001, which a GGUF file cannot say");
}
