//! What tests share.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use espalier_model::{Checkpoint, DeviceKind};
use serde_json::{Value, json};

use crate::data::Voice;
use crate::nn::{Llama, Params, Start};
use crate::output::write_tensors;
use crate::place::Place;
use crate::random::{Draws, Purpose, hash};

/// Where training computes unless told otherwise.
pub(crate) fn processor() -> Place {
    Place::open(DeviceKind::Cpu).unwrap()
}

/// A shipped checkpoint.
pub(crate) fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name)
}

/// A golden checkpoint of the model crate.
pub(crate) fn golden(name: &str) -> Checkpoint {
    Checkpoint::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden").join(name)).unwrap()
}

/// How the shipped targets write.
pub(crate) fn voice() -> Voice {
    Voice::of(&shipped("small")).unwrap()
}

/// `config.json` of a model so small that tests of whole trainings take no time; it has the shipped vocabulary.
pub(crate) fn tiny_config() -> Value {
    json!({
        "model_type": "llama", "vocab_size": 4096, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 5,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2,
    })
}

/// A checkpoint folder of this configuration with random weights, large enough for pronounced opinions, and the shipped
/// tokenizer.
pub(crate) fn checkpoint(config: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(shipped("small").join(name), folder.path().join(name)).unwrap();
    }
    let config = Checkpoint::open(folder.path()).unwrap().config;
    let mut params = Params::new(DType::F32, &processor());
    Llama::build(&config, config.layers, &mut params, Start::Random { seed: 0 }).unwrap();
    let tensors: BTreeMap<String, Tensor> =
        params.all().map(|(name, tensor)| (name.to_owned(), noise(name, tensor, 0.2))).collect();
    write_tensors(&folder.path().join("model.safetensors"), &tensors, HashMap::new()).unwrap();
    folder
}

/// A tensor like another, normal with this deviation, around 1 where the other is a norm.
pub(crate) fn noise(name: &str, like: &Tensor, deviation: f64) -> Tensor {
    let mut draws = Draws::new(1, Purpose::Weights, hash(name));
    let mean = if name.contains("norm") { 1.0 } else { 0.0 };
    let values: Vec<f64> = (0..like.elem_count()).map(|_| mean + deviation * draws.normal()).collect();
    Tensor::from_vec(values, like.shape(), like.device()).unwrap().to_dtype(like.dtype()).unwrap()
}

/// The largest absolute difference.
pub(crate) fn max_abs(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
