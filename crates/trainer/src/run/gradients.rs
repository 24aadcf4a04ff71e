//! The gradients of a step: batches are computed in parts, which add up.

use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor};

use crate::data::Batch;
use crate::error::Result;
use crate::nn::Params;
use crate::objective::Objective;
use crate::optimiser::Gradients;
use crate::random::Draws;

/// What one part of a batch comes to.
pub(super) struct Part {
    gradients: GradStore,
    /// A scalar of f64, still on the device.
    loss: Tensor,
    positions: usize,
}

impl Part {
    pub(super) fn compute(objective: &dyn Objective, batch: &Batch, draws: Draws) -> Result<Self> {
        let prediction = objective.predict(batch, draws)?;
        let loss = prediction.loss()?;
        Ok(Self {
            gradients: loss.backward()?,
            loss: loss.detach().to_dtype(DType::F64)?,
            positions: prediction.goal.counted(),
        })
    }
}

/// What the parts of a step add up to.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) gradients: Gradients,
    loss: Option<Tensor>,
    pub(super) positions: usize,
}

/// Loss and gradient of a step, over all its positions together.
pub(super) struct Size {
    pub(super) loss: f64,
    /// The length of all gradients together.
    pub(super) gradient: f64,
}

impl Sum {
    pub(super) fn add(&mut self, params: &Params, part: Part) -> Result<()> {
        self.loss = Some(match self.loss.take() {
            Some(loss) => (loss + part.loss)?,
            None => part.loss,
        });
        self.positions += part.positions;
        self.gradients.add(params, part.gradients)
    }

    /// How large it is: the one download of a step.
    pub(super) fn size(&self, params: &Params) -> Result<Size> {
        let scalars: Vec<Tensor> =
            self.loss.iter().cloned().chain(self.gradients.square_sums(&params.place)?).collect();
        let numbers: Vec<f64> = if scalars.is_empty() { Vec::new() } else { Tensor::stack(&scalars, 0)?.to_vec1()? };
        let (loss, squares) = numbers.split_first().unwrap_or((&0.0, &[]));
        Ok(Size { loss: *loss, gradient: squares.iter().sum::<f64>().sqrt() })
    }
}
