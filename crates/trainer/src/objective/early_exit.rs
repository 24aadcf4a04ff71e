//! `early-exit`: one layer, a norm and a head on top of the target's first layers (EESD, §3.1).
//!
//! Layer, norm and head begin as the target's last and are trained; the first layers are the target's own and run
//! frozen.

use espalier_model::{Checkpoint, DraftConfig, ModelConfig, ModelError, RotaryTable, Weights};
use serde_json::json;

use super::{Frozen, Goal, Objective, Prediction, Product, Setting};
use crate::data::Batch;
use crate::error::Result;
use crate::nn::{Geometry, Head, Layer, Params, Scope, Start, check_family, check_length, head_alone, layer_prefix};
use crate::output::config;
use crate::random::Draws;
use crate::recipe::EarlyExitMethod;
use crate::target;

/// The exit, and the target's first layers below it.
pub(super) struct EarlyExit {
    params: Params,
    layer: Layer,
    head: Head,
    rotary: RotaryTable,
    target: Frozen,
    shared_layers: usize,
    product: Product,
}

impl EarlyExit {
    pub(super) fn open(method: &EarlyExitMethod, setting: &Setting) -> Result<Self> {
        let checkpoint = Checkpoint::open(&method.target)?;
        let config = &checkpoint.config;
        if method.shared_layers >= config.layers {
            return Err(ModelError::Layers { asked: method.shared_layers + 1, available: config.layers }.into());
        }
        check_family(config)?;
        check_length(config, setting.length)?;
        let mut params = Params::new(setting.dtype, &setting.place);
        let (layer, head) = build(config, &checkpoint.weights()?, &mut params)?;
        Ok(Self {
            params,
            layer,
            head,
            rotary: RotaryTable::new(config),
            target: Frozen::load(&checkpoint, Some(method.shared_layers), setting)?,
            shared_layers: method.shared_layers,
            product: product(method, &checkpoint)?,
        })
    }
}

/// The target's last layer, its norm and a head of the exit's own.
fn build(config: &ModelConfig, weights: &Weights, params: &mut Params) -> Result<(Layer, Head)> {
    let start = Start::Copy(weights);
    let mut scope = Scope::new(params, layer_prefix(0), start).reading(layer_prefix(config.layers - 1));
    let layer = Layer::build(config, &mut scope)?;
    let mut outer = Scope::new(params, "", start);
    let weight = head_alone(config, &mut outer)?;
    Ok((layer, Head::build(config, &mut outer, weight)?))
}

impl Objective for EarlyExit {
    fn params(&self) -> &Params {
        &self.params
    }

    fn predict(&self, batch: &Batch, _draws: Draws) -> Result<Prediction> {
        let Params { dtype, ref place, .. } = self.params;
        let states = self.target.states(batch, self.shared_layers)?; // (batch, length, hidden)
        let geometry = Geometry::causal(batch, &self.rotary, dtype, place.device())?;
        let logits = self.head.logits(&self.layer.forward(&states, &geometry)?)?;
        Ok(Prediction::single("next token", logits, Goal::of_tokens(batch.labels().to_vec(), place)?))
    }

    fn product(&self) -> &Product {
        &self.product
    }
}

fn product(method: &EarlyExitMethod, checkpoint: &Checkpoint) -> Result<Product> {
    let mut decoder = config::read(&method.target)?;
    config::cut_layers(&mut decoder, 1);
    decoder["tie_word_embeddings"] = json!(false);
    let target = target::card(checkpoint)?;
    let mut about = target::about(&target);
    about.push(("layers shared with the target".to_owned(), method.shared_layers.to_string()));
    about.push(("layer, norm, head".to_owned(), "begun as the target's last, trained".to_owned()));
    let config = json!(DraftConfig::EarlyExit { target, shared_layers: method.shared_layers, decoder });
    Ok(Product { config, about })
}
