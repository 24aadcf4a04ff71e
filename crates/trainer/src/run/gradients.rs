//! The gradients of a step: batches are computed in parts, which add up.

use candle_core::DType;
use candle_core::backprop::GradStore;

use crate::data::Batch;
use crate::error::Result;
use crate::nn::Params;
use crate::objective::Objective;
use crate::optimiser::Gradients;
use crate::random::Draws;

/// What one part of a batch comes to.
pub(super) struct Part {
    gradients: GradStore,
    pub(super) loss: f64,
    positions: usize,
}

impl Part {
    pub(super) fn compute(objective: &dyn Objective, batch: &Batch, draws: Draws) -> Result<Self> {
        let prediction = objective.predict(batch, draws)?;
        let loss = prediction.loss()?;
        Ok(Self {
            gradients: loss.backward()?,
            loss: loss.to_dtype(DType::F64)?.to_scalar()?,
            positions: prediction.goal.counted(),
        })
    }
}

/// What the parts of a step add up to.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) gradients: Gradients,
    pub(super) loss: f64,
    pub(super) positions: usize,
}

impl Sum {
    pub(super) fn add(&mut self, params: &Params, part: Part) -> Result<()> {
        self.loss += part.loss;
        self.positions += part.positions;
        self.gradients.add(params, part.gradients)
    }
}
