//! What every objective is asked for, and what it is built with.

use std::sync::Arc;

use candle_core::{DType, Tensor};
use serde_json::Value;

use super::loss::{Goal, loss_sum};
use crate::data::Batch;
use crate::error::Result;
use crate::nn::Params;
use crate::place::Place;
use crate::random::Draws;

/// A model in training and the loss that it is trained by.
pub(crate) trait Objective: Send + Sync {
    /// The trained tensors, by the names they are saved under.
    fn params(&self) -> &Params;

    /// What the model says at every position of a batch, and what it should say. What is random in it is drawn from
    /// `draws`.
    fn predict(&self, batch: &Batch, draws: Draws) -> Result<Prediction>;

    /// What the result is, as its folder will say.
    fn product(&self) -> &Product;
}

/// What a model says, and what it should.
#[derive(Debug)]
pub(crate) struct Prediction {
    /// One for each place where the model answers; the loss is the mean over them.
    pub(crate) exits: Vec<Exit>,
    /// The same for all exits.
    pub(crate) goal: Arc<Goal>,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Exit {
    /// Where it is given.
    pub(crate) name: String,
    /// (positions, vocab)
    pub(crate) logits: Tensor,
}

impl Prediction {
    pub(super) fn single(name: &str, logits: Tensor, goal: Goal) -> Self {
        Self { exits: vec![Exit { name: name.to_owned(), logits }], goal: Arc::new(goal) }
    }

    /// The sum over counted positions of the mean over exits of the loss: a scalar that passes gradients on.
    pub(crate) fn loss(&self) -> Result<Tensor> {
        let losses = self.exits.iter().map(|exit| loss_sum(&exit.logits, &self.goal)).collect::<Result<Vec<_>>>()?;
        Ok((Tensor::stack(&losses, 0)?.sum_all()? / losses.len() as f64)?)
    }
}

/// What a training leaves in its folder, besides weights.
#[derive(Debug)]
pub(crate) struct Product {
    /// `config.json`, but for the element type.
    pub(crate) config: Value,
    /// What the model card says of it, a line each.
    pub(crate) about: Vec<(String, String)>,
}

/// What objectives are built with, besides their method.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// The element type of training: f32, or f64 where gradients are checked.
    pub(crate) dtype: DType,
    /// Where training computes.
    pub(crate) place: Place,
    /// The seed of random weights.
    pub(crate) seed: u64,
    /// The longest row.
    pub(crate) length: usize,
}
