//! `edd`: one layer that reads the target's hidden states, then tokens (EDD and PCT, §3.1), or both.
//!
//! Embedding, final norm and head begin as the target's and, as in the paper, are trained too, unless they are frozen;
//! the layer begins with random weights. The target runs frozen, on the fly.

use candle_core::Tensor;
use espalier_model::{Checkpoint, DraftConfig, ModelConfig, RotaryTable};
use serde_json::json;

use super::dual_block::{Blocks, dual_block_mask};
use super::frozen::Lesson;
use super::{Frozen, Goal, Objective, Prediction, Product, Setting};
use crate::data::Batch;
use crate::error::{Result, in_range};
use crate::nn::{
    Geometry, Head, Layer, Params, Rotation, Scope, Start, check_family, check_length, embed, embedding_and_head,
    layer_prefix,
};
use crate::output::config;
use crate::random::Draws;
use crate::recipe::{EddMethod, Sight};
use crate::target;

/// The drafter: what is trained.
#[derive(Debug)]
pub(crate) struct EddDrafter {
    embedding: Tensor,
    layer: Layer,
    head: Head,
    sight: Sight,
    rotary: RotaryTable,
}

/// What a drafter begins with.
#[derive(Clone, Copy)]
pub(crate) struct EddStart<'a> {
    /// Where embedding, final norm and head come from.
    pub(crate) outer: Start<'a>,
    /// Whether these stay as they are.
    pub(crate) frozen: bool,
    /// Where the layer comes from.
    pub(crate) layer: Start<'a>,
    /// What a position sees; the layer has the maps that this needs.
    pub(crate) sight: Sight,
}

impl EddDrafter {
    /// A drafter of the shape of a target's layer.
    pub(crate) fn build(config: &ModelConfig, params: &mut Params, start: EddStart<'_>) -> Result<Self> {
        let EddStart { outer, frozen, layer, sight } = start;
        check_family(config)?;
        let mut outer = Scope::new(params, "", outer).trained(!frozen);
        let (embedding, weight) = embedding_and_head(config, &mut outer)?;
        let head = Head::build(config, &mut outer, weight)?;
        let mut scope = Scope::new(params, layer_prefix(0), layer);
        let mut layer = Layer::build(config, &mut scope)?;
        if sight == Sight::TokensAndStates {
            layer = layer.with_maps_of_states(config, &mut scope)?;
        }
        Ok(Self { embedding, layer, head, sight, rotary: RotaryTable::new(config) })
    }

    /// The logits at every position, whose block begins at `starts` of its text, over the target's `states` (batch,
    /// length, hidden) as far as it reads them: (positions, vocab).
    pub(crate) fn logits(&self, batch: &Batch, starts: &[usize], states: &Tensor) -> Result<Tensor> {
        let x = embed(&self.embedding, batch)?; // (batch, length, hidden)
        let all_tokens = match self.sight {
            Sight::Tokens => {
                let geometry = Geometry::causal(batch, &self.rotary, x.dtype(), x.device())?;
                return self.head.logits(&self.layer.forward(&x, &geometry)?);
            }
            Sight::States => false,
            Sight::TokensAndStates => true,
        };
        let mask = dual_block_mask(batch, starts, all_tokens, x.dtype(), x.device())?;
        let rotation = Rotation::new(batch, &self.rotary, x.dtype(), x.device())?;
        self.head.logits(&self.layer.forward_over(&x, states, &Geometry { rotation, mask })?)
    }
}

/// The drafter, the target that teaches it, and the blocks.
pub(super) struct Edd {
    params: Params,
    drafter: EddDrafter,
    target: Frozen,
    method: EddMethod,
    tapped: usize,
    product: Product,
}

impl Edd {
    pub(super) fn open(method: &EddMethod, setting: &Setting) -> Result<Self> {
        let checkpoint = Checkpoint::open(&method.target)?;
        let config = &checkpoint.config;
        let tapped = method.tapped_layer.unwrap_or(default_tap(config.layers));
        in_range("the tapped layer", tapped as f64, 1.0, config.layers as f64)?;
        check_length(config, setting.length)?;
        let mut params = Params::new(setting.dtype, &setting.place);
        let weights = checkpoint.weights()?;
        let start = EddStart {
            outer: Start::Copy(&weights),
            frozen: method.freeze_head,
            layer: Start::Random { seed: setting.seed },
            sight: method.sight,
        };
        let drafter = EddDrafter::build(config, &mut params, start)?;
        Ok(Self {
            params,
            drafter,
            target: Frozen::load(&checkpoint, None, setting)?,
            method: method.clone(),
            tapped,
            product: product(method, &checkpoint, tapped)?,
        })
    }
}

impl Objective for Edd {
    fn params(&self) -> &Params {
        &self.params
    }

    fn predict(&self, batch: &Batch, mut draws: Draws) -> Result<Prediction> {
        let EddMethod { block_min, block_max, divergence, .. } = self.method;
        let Lesson { states, goal } = self.target.teach(batch, self.tapped, &batch.holds_text())?;
        let starts = Blocks { min: block_min, max: block_max }.cut(batch, &mut draws);
        let logits = self.drafter.logits(batch, &starts, &states)?;
        let goal = if divergence { goal } else { Goal::of_tokens(batch.labels().to_vec(), &self.params.place)? };
        Ok(Prediction::single("draft", logits, goal))
    }

    fn product(&self) -> &Product {
        &self.product
    }
}

/// The layer, from 1, after which the hidden states are read unless told otherwise: the fourth-to-last.
fn default_tap(layers: usize) -> usize {
    layers.saturating_sub(3).max(1)
}

fn product(method: &EddMethod, checkpoint: &Checkpoint, tapped: usize) -> Result<Product> {
    let mut decoder = config::read(&method.target)?;
    config::cut_layers(&mut decoder, 1);
    let target = target::card(checkpoint)?;
    let mut about = target::about(&target);
    about.push((
        "embedding, final norm, head".to_owned(),
        if method.freeze_head {
            "the target's, frozen".to_owned()
        } else {
            "begun as the target's, trained".to_owned()
        },
    ));
    let block_lengths = [method.block_min, method.block_max];
    let tokens_beside_states = method.sight == Sight::TokensAndStates;
    let config = if method.sight == Sight::Tokens {
        decoder
    } else {
        json!(DraftConfig::Edd { target, tapped_layer: tapped, block_lengths, tokens_beside_states, decoder })
    };
    Ok(Product { config, about })
}
