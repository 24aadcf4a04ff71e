//! A model that runs frozen beside the one in training, and what is learned from it.
//!
//! On the processor it runs as it is served. Elsewhere it runs by the operations that train, so that nothing of what it says
//! leaves the device: hidden states and logits of a batch are hundreds of megabytes.

use candle_core::{DType, Device, Tensor};
use espalier_model::{Checkpoint, Logits};

use super::{Distribution, Goal, Setting, TensorGoal};
use crate::data::Batch;
use crate::error::{Result, TrainError};
use crate::nn::{Llama, Params, Start, Tapped, check_family, check_length};
use crate::place::Place;
use crate::target::{Seen, Target};

/// The model.
pub(super) enum Frozen {
    /// By our kernels.
    Served {
        target: Box<Target>,
        /// What its states become.
        dtype: DType,
    },
    /// By tensor operations.
    Composed(Llama),
}

/// What it teaches at every position of a batch.
pub(super) struct Lesson {
    /// (batch, length, hidden): its residual stream after the tapped layer.
    pub(super) states: Tensor,
    /// To say what it says.
    pub(super) goal: Goal,
}

impl Frozen {
    /// Loads a model, or its first layers.
    ///
    /// # Errors
    /// A checkpoint that cannot be loaded; on another device than the processor also one of another family than Llama's,
    /// or whose context or sliding window is shorter than a row.
    pub(super) fn load(checkpoint: &Checkpoint, layers: Option<usize>, setting: &Setting) -> Result<Self> {
        let Setting { dtype, place, length, .. } = setting;
        if place.has_kernels() {
            let target = Box::new(Target::load(checkpoint, layers, place)?);
            return Ok(Self::Served { target, dtype: *dtype });
        }
        let config = &checkpoint.config;
        check_family(config).map_err(|fault| on_device(fault, place))?;
        check_length(config, *length)?;
        let (mut params, weights) = (Params::frozen(*dtype, place), checkpoint.weights()?);
        let model = Llama::build(config, layers.unwrap_or(config.layers), &mut params, Start::Copy(&weights))?;
        Ok(Self::Composed(model))
    }

    /// Its residual stream after a layer, from 1: (batch, length, hidden).
    pub(super) fn states(&self, batch: &Batch, layer: usize) -> Result<Tensor> {
        match self {
            Self::Served { target, dtype } => {
                let Seen { states, .. } = target.see(batch, layer, Logits::None)?;
                tensor(states, batch, *dtype)
            }
            Self::Composed(model) => model.states(batch, layer),
        }
    }

    /// The same after layer `tapped`, and what it says at the positions that count.
    pub(super) fn teach(&self, batch: &Batch, tapped: usize, counted: &[bool]) -> Result<Lesson> {
        match self {
            Self::Served { target, dtype } => {
                let Seen { states, logits } = target.see(batch, tapped, Logits::All)?;
                let goal = Goal::Distribution(Distribution::of_logits(logits, target.vocab(), counted)?);
                Ok(Lesson { states: tensor(states, batch, *dtype)?, goal })
            }
            Self::Composed(model) => {
                let Tapped { states, logits } = model.states_and_logits(batch, tapped)?;
                Ok(Lesson { states, goal: Goal::Tensors(TensorGoal::of_logits(&logits, counted)?) })
            }
        }
    }
}

/// The states of a batch in the host's memory as a tensor there: (batch, length, hidden).
fn tensor(states: Vec<f32>, batch: &Batch, dtype: DType) -> Result<Tensor> {
    let hidden = states.len() / (batch.rows() * batch.length()).max(1);
    let shape = (batch.rows(), batch.length(), hidden);
    Ok(Tensor::from_vec(states, shape, &Device::Cpu)?.to_dtype(dtype)?)
}

/// What is said of a model of another family that is to teach on a device.
fn on_device(fault: TrainError, place: &Place) -> TrainError {
    match fault {
        TrainError::Family { what } => TrainError::FamilyOnDevice { what, device: place.kind() },
        other => other,
    }
}
