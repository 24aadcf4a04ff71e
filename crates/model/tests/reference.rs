//! The reference model against what Hugging Face transformers computed, and against itself.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use candle_core::Tensor;
use espalier_model::{Checkpoint, Golden, ModelError, Reference};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn reference(name: &str) -> Reference {
    Reference::load(&Checkpoint::open(folder(name)).unwrap()).unwrap()
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn assert_golden(name: &str) {
    let (golden, reference) = (Golden::open(&folder(name)).unwrap(), reference(name));
    let output = reference.forward_causal(&golden.input_ids).unwrap();
    let logits = golden.logits.compare(&flat(&output.logits)).unwrap();
    assert!(logits.agrees(), "{logits:?}");
    assert_eq!(golden.taps.len(), 2);
    for tap in &golden.taps {
        let hidden = tap.hidden.compare(&flat(&output.hidden_after[tap.layers - 1])).unwrap();
        assert!(hidden.agrees(), "after layer {}: {hidden:?}", tap.layers);
    }
    assert_eq!(reference.greedy(&golden.prompt_ids, 48).unwrap(), golden.greedy_ids);
}

#[test]
fn llama_with_scaled_rope_is_golden() {
    assert_golden("llama3-rope-scaling");
}

#[test]
fn qwen3_is_golden() {
    assert_golden("qwen3");
}

#[test]
fn gpt_neox_is_golden() {
    assert_golden("gpt-neox");
}

#[test]
fn a_branch_of_a_tree_is_the_sequence_along_it() {
    let reference = reference("qwen3");
    // 10 - 20 - 30
    //        \ 40 - 50
    let tokens = [10, 20, 30, 40, 50];
    let positions = [0, 1, 2, 2, 3];
    let ancestors: [&[usize]; 5] = [&[0], &[0, 1], &[0, 1, 2], &[0, 1, 3], &[0, 1, 3, 4]];
    let visible: Vec<Vec<bool>> =
        ancestors.iter().map(|seen| (0..5).map(|row| seen.contains(&row)).collect()).collect();
    let tree = reference.forward(&tokens, &positions, &visible).unwrap().logits;
    let chain = reference.forward_causal(&[10, 20, 40, 50]).unwrap().logits;
    for (in_tree, in_chain) in [(0, 0), (1, 1), (3, 2), (4, 3)] {
        let (found, expected) = (flat(&tree.get(in_tree).unwrap()), flat(&chain.get(in_chain).unwrap()));
        let difference = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(difference < 1e-4, "row {in_tree}: {difference}");
    }
}

#[test]
fn a_sliding_window_hides_what_lies_behind_it() {
    let mut checkpoint = Checkpoint::open(folder("llama3-rope-scaling")).unwrap();
    let tokens = [9, 8, 7, 6, 5, 4];
    let positions: Vec<usize> = (0..6).collect();
    let near: Vec<Vec<bool>> = (0..6).map(|i| (0..6).map(|j| j <= i && j + 3 > i).collect()).collect();
    let masked = Reference::load(&checkpoint).unwrap().forward(&tokens, &positions, &near).unwrap();
    checkpoint.config.windows = vec![Some(3); 4];
    let windowed = Reference::load(&checkpoint).unwrap().forward_causal(&tokens).unwrap();
    assert_eq!(flat(&windowed.logits), flat(&masked.logits));
}

#[test]
fn input_that_makes_no_sense_is_an_error() {
    let reference = reference("gpt-neox");
    let sees_itself = [vec![true]];
    let fault = |tokens: &[u32], positions: &[usize], visible: &[Vec<bool>]| {
        reference.forward(tokens, positions, visible).unwrap_err().to_string()
    };
    assert_eq!(fault(&[], &[], &[]), ModelError::NoTokens.to_string());
    assert_eq!(fault(&[512], &[0], &sees_itself), "token 512 is outside the vocabulary of 512");
    assert_eq!(fault(&[1], &[512], &sees_itself), "position 512 is outside the context of 512 tokens");
    assert_eq!(fault(&[1], &[0], &[vec![false]]), "row 0 does not see itself");
    assert_eq!(fault(&[1], &[0, 1], &sees_itself), "positions has shape [2], expected [1]");
    assert_eq!(fault(&[1], &[0], &[vec![true; 2]]), "visible has shape [2], expected [1]");
}

#[test]
fn comparisons_catch_what_is_not_a_number() {
    let golden = Golden::open(&folder("qwen3")).unwrap();
    let mut found = golden.logits.values.clone();
    assert!(golden.logits.compare(&found).unwrap().agrees());
    found[700] = f32::NAN;
    let comparison = golden.logits.compare(&found).unwrap();
    assert_eq!((comparison.agrees(), comparison.arg_max_differs), (false, 1));
    assert!(golden.logits.compare(&found[1..]).is_err());
}

#[test]
fn a_folder_that_is_no_checkpoint_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let fault = Checkpoint::open(empty.path()).unwrap_err().to_string();
    assert_eq!(fault, format!("{} has no config.json", empty.path().display()));
    std::fs::write(empty.path().join("config.json"), "{").unwrap();
    let fault = Checkpoint::open(empty.path()).unwrap_err().to_string();
    assert!(fault.starts_with(&format!("{}/config.json: EOF while parsing", empty.path().display())), "{fault}");
    std::fs::write(empty.path().join("config.json"), r#"{"model_type": "gpt2"}"#).unwrap();
    assert!(matches!(Checkpoint::open(empty.path()), Err(ModelError::Config { .. })));
}
