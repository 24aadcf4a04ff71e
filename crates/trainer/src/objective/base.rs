//! `base`: a language model on the next token.

use espalier_model::{Checkpoint, ModelConfig, ModelError};
use serde_json::{Value, json};

use super::{Goal, Objective, Prediction, Product, Setting};
use crate::data::Batch;
use crate::error::Result;
use crate::nn::{Llama, Params, Start, check_length};
use crate::output::config;
use crate::random::Draws;
use crate::recipe::{BaseMethod, ModelShape};

/// A whole model under cross-entropy.
pub(super) struct Base {
    params: Params,
    model: Llama,
    layers: usize,
    product: Product,
}

impl Base {
    pub(super) fn open(method: &BaseMethod, setting: &Setting) -> Result<Self> {
        match method {
            BaseMethod::Checkpoint(folder) => {
                let checkpoint = Checkpoint::open(folder)?;
                let weights = checkpoint.weights()?;
                let product = Product {
                    config: config::read(folder)?,
                    about: vec![("first weights".to_owned(), checkpoint.name().to_owned())],
                };
                Self::build(&checkpoint.config, Start::Copy(&weights), product, setting)
            }
            BaseMethod::Scratch { tokenizer, shape } => {
                let donor = Checkpoint::open(tokenizer)?;
                let text = scratch(shape, &donor.config);
                let path = tokenizer.join("config.json");
                let config = ModelConfig::parse(&text.to_string(), None);
                let config = config.map_err(|fault| ModelError::Config { path, fault })?;
                let about = vec![("first weights".to_owned(), format!("random, seed {}", setting.seed))];
                let product = Product { config: text, about };
                Self::build(&config, Start::Random { seed: setting.seed }, product, setting)
            }
        }
    }

    fn build(config: &ModelConfig, start: Start<'_>, product: Product, setting: &Setting) -> Result<Self> {
        check_length(config, setting.length)?;
        let mut params = Params::new(setting.dtype, &setting.place);
        let model = Llama::build(config, config.layers, &mut params, start)?;
        Ok(Self { params, model, layers: config.layers, product })
    }
}

impl Objective for Base {
    fn params(&self) -> &Params {
        &self.params
    }

    fn predict(&self, batch: &Batch, _draws: Draws) -> Result<Prediction> {
        let mut logits = self.model.logits_at(batch, &[self.layers])?;
        let exits = logits.drain(..).map(|logits| super::Exit { name: "next token".to_owned(), logits }).collect();
        Ok(Prediction { exits, goal: Goal::of_tokens(batch.labels().to_vec(), &self.params.place)?.into() })
    }

    fn product(&self) -> &Product {
        &self.product
    }
}

/// `config.json` of a model from nothing, with the vocabulary and the special tokens of another.
fn scratch(shape: &ModelShape, donor: &ModelConfig) -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": false,
        "bos_token_id": donor.bos,
        "eos_token_id": donor.eos,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.ffn,
        "max_position_embeddings": shape.context,
        "mlp_bias": false,
        "model_type": "llama",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": true,
        "vocab_size": donor.vocab,
    })
}
