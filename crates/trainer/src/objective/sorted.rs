//! `sorted`: the first layers of a target with several exits (S2D, §3).

use espalier_model::{Checkpoint, ModelError};
use serde_json::json;

use super::{Exit, Goal, Objective, Prediction, Product, Setting};
use crate::data::Batch;
use crate::error::Result;
use crate::nn::{Llama, Params, Start, check_length};
use crate::output::config;
use crate::random::Draws;
use crate::recipe::SortedMethod;

/// A model whose exits share one norm and one head: the mean over exits of the cross-entropy.
pub(super) struct Sorted {
    params: Params,
    model: Llama,
    exits: Vec<usize>,
    product: Product,
}

impl Sorted {
    pub(super) fn open(method: &SortedMethod, setting: &Setting) -> Result<Self> {
        let SortedMethod { init, layers, exits } = method;
        let checkpoint = Checkpoint::open(init)?;
        let available = checkpoint.config.layers;
        if *layers > available {
            return Err(ModelError::Layers { asked: *layers, available }.into());
        }
        check_length(&checkpoint.config, setting.length)?;
        let mut params = Params::new(setting.dtype, &setting.device);
        let model = Llama::build(&checkpoint.config, *layers, &mut params, Start::Copy(&checkpoint.weights()?))?;
        let mut config = config::read(init)?;
        config::cut_layers(&mut config, *layers);
        config["espalier_exits"] = json!(exits);
        let about = vec![
            ("first weights".to_owned(), format!("the first {layers} of {available} layers of {}", checkpoint.name())),
            ("exits after layers".to_owned(), format!("{exits:?}")),
        ];
        let product = Product { config, about };
        Ok(Self { params, model, exits: exits.clone(), product })
    }
}

impl Objective for Sorted {
    fn params(&self) -> &Params {
        &self.params
    }

    fn predict(&self, batch: &Batch, _draws: Draws) -> Result<Prediction> {
        let logits = self.model.logits_at(batch, &self.exits)?;
        let name = |(exit, logits)| Exit { name: format!("exit after layer {exit}"), logits };
        let exits = self.exits.iter().zip(logits).map(name).collect();
        Ok(Prediction { exits, goal: Goal::Tokens(batch.labels().to_vec()).into() })
    }

    fn product(&self) -> &Product {
        &self.product
    }
}
