//! Quantized weights differ from the checkpoint's by no more than half a step of their block.

use candle_core::DType;
use espalier_model::Weights;

use super::*;

/// The elements of some matrices of all kinds of order.
fn matrices(path: &Path, names: &[(&str, [usize; 2])]) -> Vec<f32> {
    let weights = Weights::open(path).unwrap();
    let elements = |(name, shape): &(&str, [usize; 2])| {
        let tensor = weights.tensor(name, shape).unwrap().to_dtype(DType::F32).unwrap();
        tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    names.iter().flat_map(elements).collect()
}

#[test]
fn every_element_is_within_half_a_step() {
    let llama = [
        ("model.embed_tokens.weight", [512, 64]),
        ("model.layers.1.self_attn.q_proj.weight", [64, 64]),
        ("model.layers.1.self_attn.k_proj.weight", [32, 64]),
        ("model.layers.3.mlp.down_proj.weight", [64, 160]),
        ("lm_head.weight", [512, 64]),
    ];
    let neox = [
        ("gpt_neox.layers.2.attention.query_key_value.weight", [192, 64]),
        ("gpt_neox.layers.2.mlp.dense_4h_to_h.weight", [64, 256]),
    ];
    for (name, tensors) in [("llama3-rope-scaling", &llama[..]), ("qwen3", &llama), ("gpt-neox", &neox)] {
        let exact = matrices(&golden(name), tensors);
        // The least magnitude that the largest of a block stands for, in steps: one more is lost to rounding of the step.
        for (kind, steps) in [(TensorType::Q8_0, 2.0 * 127.0), (TensorType::Q4_0, 8.0)] {
            let found = matrices(converted(&golden(name), Some(kind)).path(), tensors);
            for (exact, found) in exact.chunks(32).zip(found.chunks(32)) {
                let largest = exact.iter().fold(0f32, |largest, element| largest.max(element.abs()));
                let bound = largest / steps * 1.01 + largest * 1e-3;
                assert!(exact.iter().zip(found).all(|(a, b)| (a - b).abs() <= bound), "{name} {kind}");
            }
        }
    }
}

#[test]
fn eight_bits_hardly_change_logits() {
    for path in GOLDEN.map(golden) {
        let (exact, found) = (logits(&path), logits(converted(&path, Some(TensorType::Q8_0)).path()));
        let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>().sqrt();
        let error = norm(&mut exact.iter().zip(&found).map(|(a, b)| a - b)) / norm(&mut exact.iter().copied());
        assert!(error < 0.05, "{}: {error}", path.display());
    }
}
