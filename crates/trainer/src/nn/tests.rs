//! The differentiable model against the oracle.
#![allow(clippy::unwrap_used)]

use candle_core::{DType, Tensor};
use espalier_model::{Checkpoint, Golden, Reference};
use serde_json::json;

use super::{Llama, Params, Start, check_length};
use crate::data::Batch;
use crate::testing::{checkpoint, golden, max_abs, processor, tiny_config};

fn model(checkpoint: &Checkpoint) -> Llama {
    let mut params = Params::new(DType::F32, &processor());
    let weights = checkpoint.weights().unwrap();
    Llama::build(&checkpoint.config, checkpoint.config.layers, &mut params, Start::Copy(&weights)).unwrap()
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn logits(model: &Llama, batch: &Batch, layers: usize) -> Vec<f32> {
    flat(&model.logits_at(batch, &[layers]).unwrap()[0])
}

fn assert_equals_reference(checkpoint: &Checkpoint, text: &[u32]) {
    let found = logits(&model(checkpoint), &Batch::of_texts(&[text.to_vec()]), checkpoint.config.layers);
    let expected = Reference::load(checkpoint).unwrap().forward_causal(text).unwrap().logits;
    let difference = max_abs(&found, &flat(&expected));
    assert!(difference < 1e-4, "{difference}");
}

#[test]
fn golden_checkpoints_give_the_reference_s_logits() {
    for name in ["llama3-rope-scaling", "qwen3"] {
        let checkpoint = golden(name);
        let text = Golden::open(&checkpoint.path).unwrap().input_ids;
        assert_equals_reference(&checkpoint, &text);
    }
}

#[test]
fn every_bias_and_an_untied_head_find_their_places() {
    let mut config = tiny_config();
    let changes = [("attention_bias", json!(true)), ("mlp_bias", json!(true)), ("tie_word_embeddings", json!(false))];
    changes.into_iter().for_each(|(key, value)| config[key] = value);
    config["partial_rotary_factor"] = json!(0.5);
    config["hidden_act"] = json!("gelu");
    let folder = checkpoint(&config);
    assert_equals_reference(&Checkpoint::open(folder.path()).unwrap(), &[1, 300, 4095, 7, 7, 12]);
}

#[test]
fn texts_in_one_row_are_computed_as_if_alone() {
    let checkpoint = golden("qwen3");
    let model = model(&checkpoint);
    let texts = [vec![3, 1, 4, 1, 5], vec![9, 2], vec![6, 5, 3, 5]];
    let packed = Batch::of_pieces(&[&[&texts[0], &texts[1]], &[&texts[2]]]);
    let vocab = checkpoint.config.vocab;
    let together = logits(&model, &packed, 4);
    for (span, text) in packed.spans().iter().zip(&texts) {
        let alone = logits(&model, &Batch::of_texts(std::slice::from_ref(text)), 4);
        let difference = max_abs(&together[packed.first_of(span) * vocab..][..alone.len()], &alone);
        assert!(difference < 1e-5, "{difference}");
    }
}

#[test]
fn exits_share_norm_and_head() {
    let checkpoint = golden("llama3-rope-scaling");
    let model = model(&checkpoint);
    let batch = Batch::of_texts(&[vec![3, 1, 4, 1, 5]]);
    let exits = model.logits_at(&batch, &[2, 4]).unwrap();
    assert_eq!(exits.len(), 2);
    for (exit, found) in [2, 4].into_iter().zip(&exits) {
        let mut cut = Checkpoint::open(&checkpoint.path).unwrap();
        cut.config.layers = exit;
        let expected = Reference::load(&cut).unwrap().forward_causal(&[3, 1, 4, 1, 5]).unwrap().logits;
        assert!(max_abs(&flat(found), &flat(&expected)) < 1e-4, "exit {exit}");
    }
}

#[test]
fn other_families_and_outgrown_windows_are_refused() {
    let mut params = Params::new(DType::F32, &processor());
    let neox = golden("gpt-neox").config;
    let fault = Llama::build(&neox, 1, &mut params, Start::Random { seed: 0 }).unwrap_err().to_string();
    assert_eq!(fault, "a model with LayerNorm cannot be trained here: only the Llama family can");
    let mut windowed = golden("qwen3").config;
    assert!(check_length(&windowed, 512).is_ok());
    let fault = check_length(&windowed, 513).unwrap_err().to_string();
    assert_eq!(fault, "the length of a row is 513, expected 1 to 512");
    windowed.windows[1] = Some(64);
    let fault = check_length(&windowed, 65).unwrap_err().to_string();
    assert_eq!(fault, "sequences of 65 tokens are longer than the sliding window of 64");
}
