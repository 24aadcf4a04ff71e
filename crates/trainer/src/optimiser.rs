//! AdamW (Loshchilov and Hutter 2019) on summed gradients, and the schedule of its rate.

mod kernels;
mod operations;
mod schedule;
mod update;

use std::collections::BTreeMap;

use candle_core::Tensor;
use candle_core::backprop::GradStore;

use crate::error::{Result, TrainError};
use crate::nn::Params;
use crate::place::Place;
use crate::recipe::OptimiserOptions;

pub(crate) use schedule::Schedule;
pub(crate) use update::Moments;
use update::Update;

/// The gradients of one step, summed over its batches.
#[derive(Debug, Default)]
pub(crate) struct Gradients {
    sums: BTreeMap<String, Tensor>,
}

impl Gradients {
    /// Adds the gradients of one batch.
    ///
    /// # Errors
    /// A trained tensor without a gradient: it has no part in the loss, or an operation lost it.
    pub(crate) fn add(&mut self, params: &Params, mut batch: GradStore) -> Result<()> {
        for (name, var) in params.trained() {
            let lost = || TrainError::NoGradient { name: name.to_owned() };
            let gradient = batch.remove(var.as_tensor()).ok_or_else(lost)?;
            let sum = match self.sums.remove(name) {
                Some(sum) => (sum + gradient)?,
                None => gradient,
            };
            self.sums.insert(name.to_owned(), sum.contiguous()?);
        }
        Ok(())
    }

    /// Of each tensor's gradient, in the order of their names, the sum of squares: scalars of f64 where the gradients are.
    pub(crate) fn square_sums(&self, place: &Place) -> Result<Vec<Tensor>> {
        let square_sum = if place.has_kernels() { kernels::square_sum } else { operations::square_sum };
        self.sums.values().map(square_sum).collect()
    }
}

/// How far one step goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stride {
    /// The number of the step, from 1.
    pub(crate) step: usize,
    /// The learning rate.
    pub(crate) learning_rate: f64,
    /// How often the gradients count.
    pub(crate) scale: f64,
}

/// The optimiser and its memory.
#[derive(Debug)]
pub(crate) struct AdamW {
    options: OptimiserOptions,
    moments: BTreeMap<String, Moments>,
}

impl AdamW {
    /// Without memory.
    pub(crate) fn new(params: &Params, options: &OptimiserOptions) -> Result<Self> {
        let blank = |(name, var): (&str, &candle_core::Var)| {
            let moments = Moments { mean: var.zeros_like()?, square: var.zeros_like()? };
            Ok((name.to_owned(), moments))
        };
        Ok(Self { options: options.clone(), moments: params.trained().map(blank).collect::<Result<_>>()? })
    }

    /// The memory, by the tensors' names.
    pub(crate) fn moments(&self) -> impl Iterator<Item = (&str, &Moments)> {
        self.moments.iter().map(|(name, moments)| (name.as_str(), moments))
    }

    /// Replaces the memory of a tensor.
    pub(crate) fn restore(&mut self, name: &str, moments: Moments) {
        self.moments.insert(name.to_owned(), moments);
    }

    /// Moves every tensor against its gradient.
    pub(crate) fn step(&mut self, params: &Params, gradients: &Gradients, stride: Stride) -> Result<()> {
        let update = if params.place.has_kernels() { kernels::update } else { operations::update };
        for (name, var) in params.trained() {
            let missing = || TrainError::NoGradient { name: name.to_owned() };
            let gradient = gradients.sums.get(name).ok_or_else(missing)?;
            let moments = self.moments.get_mut(name).ok_or_else(missing)?;
            update(var, moments, gradient, &stride.update(&self.options, var.rank()))?;
        }
        Ok(())
    }
}

impl Stride {
    /// What the step does to a tensor of this rank: matrices decay, norms and biases do not.
    fn update(&self, options: &OptimiserOptions, rank: usize) -> Update {
        let &Self { step, learning_rate, scale } = self;
        let &OptimiserOptions { beta1, beta2, weight_decay, .. } = options;
        let decay = if rank > 1 { weight_decay } else { 0.0 };
        Update {
            keep_mean: beta1,
            add_gradient: (1.0 - beta1) * scale,
            keep_square: beta2,
            add_square: (1.0 - beta2) * scale * scale,
            keep_weight: 1.0 - learning_rate * decay,
            rate: learning_rate / (1.0 - beta1.powf(step as f64)),
            square_scale: 1.0 / (1.0 - beta2.powf(step as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use candle_core::DType;
    use espalier_model::DeviceKind;

    use super::update::EPSILON;
    use super::*;
    use crate::nn::{Scope, Start};
    use crate::testing::max_abs;

    /// Where kernels of our own compute, and where tensor operations do.
    const KINDS: [DeviceKind; 2] = [DeviceKind::Cpu, DeviceKind::Candle];

    fn options() -> OptimiserOptions {
        OptimiserOptions { weight_decay: 0.1, beta1: 0.9, beta2: 0.99, ..OptimiserOptions::default() }
    }

    /// A matrix (1, 2) and a norm (2,), and the gradients of `sum(matrix * norm)`.
    fn model(kind: DeviceKind) -> (Params, Tensor, Tensor) {
        let mut params = Params::new(DType::F64, &Place::open(kind).unwrap());
        let mut scope = Scope::new(&mut params, "", Start::Random { seed: 3 });
        let matrix = scope.tensor("matrix", &[1, 2]).unwrap();
        let norm = scope.norm("norm", 2).unwrap();
        (params, matrix, norm)
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn two_steps_are_those_of_the_paper_s_algorithm_2() {
        KINDS.into_iter().for_each(two_steps_on);
    }

    fn two_steps_on(kind: DeviceKind) {
        let (params, matrix, norm) = model(kind);
        let mut optimiser = AdamW::new(&params, &options()).unwrap();
        let rate = 0.05;
        let mut expected = [values(&matrix), values(&norm)];
        let mut memory = [[0.0; 2]; 4];
        for step in 1..=2 {
            let loss = matrix.broadcast_mul(&norm).unwrap().sum_all().unwrap();
            let mut gradients = Gradients::default();
            gradients.add(&params, loss.backward().unwrap()).unwrap();
            let stride = Stride { step, learning_rate: rate, scale: 0.5 };
            optimiser.step(&params, &gradients, stride).unwrap();
            let given = [expected[1].clone(), expected[0].clone()];
            for (tensor, decay) in [(0, 0.1), (1, 0.0)] {
                for i in 0..2 {
                    let g = 0.5 * given[tensor][i];
                    let m = &mut memory[tensor][i];
                    *m = 0.9 * *m + 0.1 * g;
                    let corrected = *m / (1.0 - 0.9_f64.powi(step as i32));
                    let v = &mut memory[2 + tensor][i];
                    *v = 0.99 * *v + 0.01 * g * g;
                    let root = (*v / (1.0 - 0.99_f64.powi(step as i32))).sqrt();
                    let p = &mut expected[tensor][i];
                    *p -= rate * (corrected / (root + EPSILON) + decay * *p);
                }
            }
            for (found, expected) in [&matrix, &norm].into_iter().zip(&expected) {
                values(found).iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{a} {b}"));
            }
        }
    }

    #[test]
    fn squares_are_of_the_sum_of_gradients_by_the_order_of_names() {
        for kind in KINDS {
            let (params, matrix, norm) = model(kind);
            let mut gradients = Gradients::default();
            for _ in 0..2 {
                let loss = matrix.broadcast_mul(&norm).unwrap().sum_all().unwrap();
                gradients.add(&params, loss.backward().unwrap()).unwrap();
            }
            // The gradient of each is the other.
            let squares = |tensor: &Tensor| values(tensor).iter().map(|x| 4.0 * x * x).sum::<f64>();
            let found = gradients.square_sums(&params.place).unwrap();
            for (found, expected) in found.iter().zip([squares(&norm), squares(&matrix)]) {
                assert!((found.to_scalar::<f64>().unwrap() - expected).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_device_takes_the_same_steps_in_f32() {
        let weights = KINDS.map(|kind| {
            let mut params = Params::new(DType::F32, &Place::open(kind).unwrap());
            let mut scope = Scope::new(&mut params, "", Start::Random { seed: 3 });
            let (matrix, norm) = (scope.tensor("matrix", &[40, 300]).unwrap(), scope.norm("norm", 300).unwrap());
            let mut optimiser = AdamW::new(&params, &options()).unwrap();
            for step in 1..=20 {
                let loss = matrix.broadcast_mul(&norm).unwrap().sin().unwrap().sum_all().unwrap();
                let mut gradients = Gradients::default();
                gradients.add(&params, loss.backward().unwrap()).unwrap();
                optimiser.step(&params, &gradients, Stride { step, learning_rate: 0.01, scale: 0.5 }).unwrap();
            }
            [matrix, norm].map(|tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap())
        });
        for (kernels, operations) in weights[0].iter().zip(&weights[1]) {
            assert!(max_abs(kernels, operations) < 1e-6, "{}", max_abs(kernels, operations));
        }
    }

    #[test]
    fn a_tensor_without_a_gradient_is_named() {
        let (params, matrix, _) = model(DeviceKind::Cpu);
        let loss = matrix.sum_all().unwrap();
        let fault = Gradients::default().add(&params, loss.backward().unwrap()).unwrap_err();
        assert_eq!(fault.to_string(), "norm receives no gradient");
    }
}
