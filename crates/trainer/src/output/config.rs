//! `config.json` as JSON, for what is derived from another model's.

use std::path::Path;

use espalier_model::Checkpoint;
use serde_json::{Value, json};

use crate::error::{Result, TrainError};
use crate::recipe::Precision;

/// What `config.json` says of the model at `path`, or would say, which `Checkpoint` has already found to be sound.
pub(crate) fn read(path: &Path) -> Result<Value> {
    let text = Checkpoint::describe(path)?;
    serde_json::from_str(&text).map_err(|fault| TrainError::Json { path: path.to_owned(), fault })
}

/// Cuts a model to its first layers.
pub(crate) fn cut_layers(config: &mut Value, layers: usize) {
    config["num_hidden_layers"] = json!(layers);
    if let Some(Value::Array(types)) = config.get_mut("layer_types") {
        types.truncate(layers);
    }
}

/// Says which element type the weights have, in the model's own configuration or in that of its decoder.
pub(crate) fn set_precision(config: &mut Value, precision: Precision) {
    let model = if config.get("decoder").is_some() { &mut config["decoder"] } else { config };
    let name = match precision {
        Precision::F32 => "float32",
        Precision::Bf16 => "bfloat16",
    };
    // What transformers 5 calls it, and what it was called before.
    let key = if model.get("torch_dtype").is_some() { "torch_dtype" } else { "dtype" };
    model[key] = json!(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_model_has_the_types_of_its_first_layers() {
        let mut config = json!({"num_hidden_layers": 3, "layer_types": ["a", "b", "c"], "vocab_size": 8});
        cut_layers(&mut config, 1);
        assert_eq!(config, json!({"num_hidden_layers": 1, "layer_types": ["a"], "vocab_size": 8}));
    }

    #[test]
    fn the_element_type_is_said_where_the_model_is_described() {
        let mut nested = json!({"model_type": "x", "decoder": {"torch_dtype": "bfloat16"}});
        set_precision(&mut nested, Precision::F32);
        assert_eq!(nested, json!({"model_type": "x", "decoder": {"torch_dtype": "float32"}}));
        let mut flat = json!({});
        set_precision(&mut flat, Precision::Bf16);
        assert_eq!(flat, json!({"dtype": "bfloat16"}));
    }
}
