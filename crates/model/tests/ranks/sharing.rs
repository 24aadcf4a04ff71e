//! What ranks compute together is what one computes alone, but for the order of sums; and what happens when they cannot.

use std::path::{Path, PathBuf};

use espalier_model::{
    Asked, Checkpoint, Decoder, DeviceKind, KvCache, LoadOptions, Logits, ModelConfig, ModelError, Row, Segment,
    Workspace,
};

use crate::shared_by;

/// Sizes that ranks cannot share evenly, and heads that two of six ranks have in common.
const UNEVEN: &str = r#"{"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 96, "intermediate_size": 157,
    "vocab_size": 301, "num_attention_heads": 6, "num_key_value_heads": 2, "tie_word_embeddings": true}"#;

/// Models of every architecture that is shared in a way of its own.
const CHECKPOINTS: [&str; 4] =
    ["../../models/small", "tests/golden/qwen3", "tests/golden/gpt-neox", "tests/golden/llama3-rope-scaling"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn load(name: &str, options: &LoadOptions) -> Decoder {
    Decoder::load(&Checkpoint::open(folder(name)).unwrap(), options).unwrap()
}

fn tokens() -> Vec<u32> {
    (0..90_u32).map(|i| i.wrapping_mul(2_654_435_761) % 300).collect()
}

fn forward(decoder: &Decoder, cache: &mut KvCache, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
    let (mut work, rows) = (Workspace::new(1), Row::chain(tokens, 0));
    let segment = Segment { cache, rows: &rows, logits: Logits::All };
    let output = decoder.forward(&mut work, &mut [segment], Asked::default())?;
    Ok((0..rows.len()).flat_map(|row| output.logits(0, row).to_vec()).collect())
}

/// A prompt in two passes, so that what the first one stored is read.
fn logits(decoder: &Decoder) -> Vec<f32> {
    let (mut cache, tokens) = (decoder.new_cache(), tokens());
    let mut logits = forward(decoder, &mut cache, &tokens[..70]).unwrap();
    cache.keep_path(&(0..70).collect::<Vec<_>>()).unwrap();
    logits.extend(forward(decoder, &mut cache, &tokens[70..]).unwrap());
    logits
}

fn assert_alike(alone: &[f32], shared: &[f32], what: &str) {
    assert_eq!(alone.len(), shared.len());
    let largest = alone.iter().zip(shared).map(|(alone, shared)| (alone - shared).abs()).fold(0.0, f32::max);
    assert!(largest < 1e-4, "{what}: off by {largest}");
    assert!(alone.iter().all(|logit| logit.is_finite()) && alone.iter().any(|logit| logit.abs() > 0.1), "{what}");
}

#[test]
fn ranks_compute_what_one_computes() {
    for name in CHECKPOINTS {
        let alone = logits(&load(name, &shared_by("1")));
        for ranks in ["2", "4"] {
            let decoder = load(name, &shared_by(ranks));
            assert_eq!(decoder.computes_in(), format!("f32@{ranks}xcandle"));
            assert_alike(&alone, &logits(&decoder), &format!("{name} shared by {ranks}"));
        }
    }
}

#[test]
fn what_cannot_be_shared_evenly_is_shared_all_the_same() {
    let config = ModelConfig::parse(UNEVEN, None).unwrap();
    let random = |options: &LoadOptions| Decoder::random(&config, 3, options, |_, _| {}).unwrap();
    let alone = random(&shared_by("1"));
    for ranks in ["2", "6"] {
        let shared = random(&shared_by(ranks));
        assert_alike(&logits(&alone), &logits(&shared), &format!("shared by {ranks}"));
        // Every weight is multiplied once; keys and values are made by each rank that needs them.
        let again = if ranks == "6" { 2 * 2 * 2 * 2 * 16 * 96 * 4 } else { 0 };
        assert_eq!(shared.weight_bytes(), alone.weight_bytes() + again);
    }
}

#[test]
fn heads_that_do_not_divide_and_ranks_of_the_processor_are_refused() {
    let checkpoint = Checkpoint::open(folder("../../models/small")).unwrap();
    let refusal = |options: &LoadOptions| Decoder::load(&checkpoint, options).err().unwrap().to_string();
    assert_eq!(
        refusal(&shared_by("3")),
        "4 heads with 2 of keys and values cannot be shared by 3 ranks; [1, 2, 4] ranks can share them, and \
         --pipeline-parallel splits layers instead"
    );
    assert_eq!(
        refusal(&LoadOptions { device: DeviceKind::Cpu, ..shared_by("2") }),
        "tensor parallelism over 2 ranks needs GPUs; device cpu runs a model whole, on all threads"
    );
}

#[test]
fn a_rank_that_fails_ends_the_pass_and_the_model_with_a_sentence() {
    let name = "tests/golden/qwen3";
    for ranks in ["1", "4"] {
        let shared = load(name, &shared_by(ranks));
        assert_eq!(logits(&shared).len(), 90 * 512);
        // Keys and values where no rank can reach them.
        let mut elsewhere = load(name, &LoadOptions::default()).new_cache();
        // Nothing is asked for but that they are stored.
        let (mut work, rows) = (Workspace::new(1), Row::chain(&[1, 2], 0));
        let segment = Segment { cache: &mut elsewhere, rows: &rows, logits: Logits::None };
        let fault = shared.forward(&mut work, &mut [segment], Asked::default()).err().unwrap();
        assert!(fault.is_fatal());
        let sentence = "a cache has its keys and values on another device than the model";
        let (before, after) = (format!(" of {ranks} on device candle failed: "), fault.to_string());
        assert!(after.starts_with("rank ") && after.ends_with(&(before + sentence)), "{after}");
        // Nor can kernels reach what a device keeps.
        let kernels = load(name, &LoadOptions::default());
        assert_eq!(forward(&kernels, &mut shared.new_cache(), &[1, 2]).unwrap_err().to_string(), sentence);
        // It is not asked again.
        let again = forward(&shared, &mut shared.new_cache(), &[1, 2]).unwrap_err();
        assert_eq!(again.to_string(), after);
    }
}
