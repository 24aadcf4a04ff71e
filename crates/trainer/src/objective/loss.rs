//! Cross-entropy and divergence over the vocabulary, in one pass each way on the processor.
//!
//! Written with tensor operations, either loss reads and writes the logits a dozen times; [`RowLoss`] reads them once
//! forwards and writes the gradient once backwards. Other devices have [`TensorGoal`]; a test holds the two together.

use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp1, D, DType, Layout, Shape, Tensor, WithDType};
use espalier_speculation::Token;
use rayon::prelude::*;

use super::distribution::Distribution;
use super::tensor_goal::TensorGoal;
use crate::error::Result;
use crate::place::Place;
use crate::real::{self, Real, with_real};

/// What this operation is called in errors.
const NAME: &str = "row-loss";

/// What should be said at every position.
#[derive(Debug)]
pub(crate) enum Goal {
    /// One token: the loss is `-ln q(token)`. Positions without one do not count.
    Tokens(Vec<Option<Token>>),
    /// What the target says: the loss is `KL(p || q)`.
    Distribution(Distribution),
    /// Either, or a mix, where tensor operations compute the loss.
    Tensors(TensorGoal),
}

impl Goal {
    /// One token at each position; those without one do not count.
    pub(super) fn of_tokens(tokens: Vec<Option<Token>>, place: &Place) -> Result<Self> {
        if place.has_kernels() {
            return Ok(Self::Tokens(tokens));
        }
        Ok(Self::Tensors(TensorGoal::of_tokens(&tokens, 1.0, place.device())?))
    }

    /// The beginning of a mix over a vocabulary: the tokens with a share.
    pub(super) fn of_tokens_in_part(tokens: &[Option<Token>], vocab: usize, share: f64, place: &Place) -> Result<Self> {
        if place.has_kernels() {
            return Ok(Self::Distribution(Distribution::of_tokens(tokens, vocab, share)));
        }
        Ok(Self::Tensors(TensorGoal::of_tokens(tokens, share, place.device())?))
    }

    /// Adds to a mix what a model says, with a weight; those of all parts must come to 1. What is best to say stays.
    pub(super) fn add(&mut self, said: Self, weight: f64) -> Result<()> {
        match (self, said) {
            (Self::Distribution(sum), Self::Distribution(said)) => sum.add(&said, weight),
            (Self::Tensors(sum), Self::Tensors(said)) => sum.add(said, weight)?,
            _ => return Err(candle_core::Error::msg("what is said at two places cannot be mixed").into()),
        }
        Ok(())
    }

    /// Per position, the token that is best to say, where the position counts; empty where tensors say it.
    fn best(&self) -> &[Option<Token>] {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::Distribution(distribution) => &distribution.best,
            Self::Tensors(_) => &[],
        }
    }

    /// Positions that count.
    pub(crate) fn counted(&self) -> usize {
        match self {
            Self::Tensors(goal) => goal.counted,
            _ => self.best().iter().flatten().count(),
        }
    }

    /// What should be said at one position.
    fn at(&self, position: usize) -> Option<Row<'_>> {
        let best = self.best().get(position).copied().flatten()?;
        match self {
            Self::Tokens(_) => Some(Row::Token(best as usize)),
            Self::Distribution(Distribution { probs, vocab, negative_entropy, .. }) => {
                Some(Row::Probs(&probs[position * vocab..][..*vocab], negative_entropy[position]))
            }
            Self::Tensors(_) => None,
        }
    }
}

/// What should be said at one position.
enum Row<'a> {
    Token(usize),
    /// Probabilities, and their negative entropy.
    Probs(&'a [f32], f64),
}

/// The sum of the losses of `logits` (positions, vocab) over the positions that count: a scalar.
pub(crate) fn loss_sum(logits: &Tensor, goal: &Arc<Goal>) -> Result<Tensor> {
    match &**goal {
        Goal::Tensors(goal) => goal.loss_sum(logits),
        _ => Ok(logits.contiguous()?.apply_op1(RowLoss { goal: goal.clone() })?),
    }
}

/// How many of the counted positions have their largest logit at the best token.
pub(crate) fn hits(logits: &Tensor, goal: &Goal) -> Result<usize> {
    if let Goal::Tensors(goal) = goal {
        return goal.hits(logits);
    }
    let said: Vec<Token> = logits.argmax(D::Minus1)?.to_vec1()?;
    Ok(said.into_iter().zip(goal.best()).filter(|(said, best)| Some(*said) == **best).count())
}

/// The sum of losses, as one operation.
struct RowLoss {
    goal: Arc<Goal>,
}

impl RowLoss {
    /// `logits` is (positions, vocab), row after row.
    fn sum<T: Real>(&self, logits: &[T], vocab: usize) -> T {
        let rows = logits.par_chunks(vocab).enumerate();
        let losses = rows.map(|(position, row)| self.goal.at(position).map_or(0.0, |goal| loss(row, &goal)));
        // Collected first: a parallel sum would add in another order every time.
        let losses: Vec<f64> = losses.collect();
        T::from_f64(losses.into_iter().sum())
    }

    fn gradient<T: Real>(&self, logits: &[T], vocab: usize, scale: f64) -> Vec<T> {
        let mut gradient = vec![T::from_f64(0.0); logits.len()];
        let rows = gradient.par_chunks_mut(vocab).zip(logits.par_chunks(vocab)).enumerate();
        rows.for_each(|(position, (gradient, row))| {
            if let Some(goal) = self.goal.at(position) {
                differentiate(row, &goal, T::from_f64(scale), gradient);
            }
        });
        gradient
    }
}

fn largest<T: Real>(row: &[T]) -> T {
    row.iter().copied().fold(T::from_f64(f64::NEG_INFINITY), |max, x| if x > max { x } else { max })
}

fn loss<T: Real>(row: &[T], goal: &Row<'_>) -> f64 {
    let max = largest(row);
    let total: f64 = row.iter().map(|x| (*x - max).exp().to_f64()).sum();
    let log_total = max.to_f64() + total.ln();
    match goal {
        Row::Token(token) => log_total - row[*token].to_f64(),
        Row::Probs(probs, negative_entropy) => {
            let expected: f64 = row.iter().zip(*probs).map(|(x, p)| x.to_f64() * f64::from(*p)).sum();
            negative_entropy + log_total - expected
        }
    }
}

/// `scale * (q - p)`.
fn differentiate<T: Real>(row: &[T], goal: &Row<'_>, scale: T, gradient: &mut [T]) {
    let max = largest(row);
    let mut total = 0.0;
    for (slot, x) in gradient.iter_mut().zip(row) {
        *slot = (*x - max).exp();
        total += slot.to_f64();
    }
    let share = T::from_f64(1.0 / total) * scale;
    match goal {
        Row::Token(token) => {
            gradient.iter_mut().for_each(|slot| *slot *= share);
            gradient[*token] -= scale;
        }
        Row::Probs(probs, _) => {
            let pairs = gradient.iter_mut().zip(*probs);
            pairs.for_each(|(slot, p)| *slot = *slot * share - T::from_f64(f64::from(*p)) * scale);
        }
    }
}

impl CustomOp1 for RowLoss {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let (_, vocab) = layout.shape().dims2()?;
        let sum = with_real!(NAME, storage.dtype(), T => {
            let sum = self.sum::<T>(real::slice(storage, layout)?, vocab);
            Ok(T::to_cpu_storage_owned(vec![sum]))
        })?;
        Ok((sum, Shape::from(())))
    }

    fn bwd(&self, logits: &Tensor, _: &Tensor, gradient: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let scale = gradient.to_dtype(DType::F64)?.to_scalar()?;
        let (_, vocab) = logits.dims2()?;
        with_real!(NAME, logits.dtype(), T => {
            let gradient = real::read(logits, |rows| self.gradient::<T>(rows, vocab, scale))?;
            Tensor::from_vec(gradient, logits.shape(), logits.device()).map(Some)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use candle_core::{Device, Var};
    use espalier_model::DeviceKind;

    use super::*;

    const POSITIONS: usize = 5;
    const VOCAB: usize = 7;

    fn logits(salt: f64) -> Vec<f64> {
        (0..POSITIONS * VOCAB).map(|i| 3.0 * ((i as f64) * salt).sin()).collect()
    }

    const TOKENS: [Option<Token>; POSITIONS] = [Some(3), None, Some(0), Some(6), Some(2)];
    const COUNTED: [bool; POSITIONS] = [true, true, false, true, true];

    /// What a model says of which the logits are these.
    fn said(salt: f64) -> Distribution {
        let logits = logits(salt).into_iter().map(|x| x as f32).collect();
        Distribution::of_logits(logits, VOCAB, &COUNTED).unwrap()
    }

    /// The same for tensor operations.
    fn said_by_tensors(salt: f64) -> TensorGoal {
        let logits = Tensor::from_vec(logits(salt), (POSITIONS, VOCAB), &Device::Cpu).unwrap();
        TensorGoal::of_logits(&logits, &COUNTED).unwrap()
    }

    fn goals() -> [Arc<Goal>; 2] {
        [Arc::new(Goal::Tokens(TOKENS.to_vec())), Arc::new(Goal::Distribution(said(2.3)))]
    }

    /// The same goals at a place without kernels.
    fn goals_of_tensors() -> [Arc<Goal>; 2] {
        let candle = Place::open(DeviceKind::Candle).unwrap();
        [Goal::of_tokens(TOKENS.to_vec(), &candle).unwrap(), Goal::Tensors(said_by_tensors(2.3))].map(Arc::new)
    }

    fn value_and_gradient(logits: &Var, loss: &Tensor) -> (f64, Vec<f64>) {
        let gradient = loss.backward().unwrap().get(logits).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        (loss.to_scalar().unwrap(), gradient)
    }

    #[test]
    fn one_pass_gives_what_tensor_operations_give() {
        let logits = Var::from_vec(logits(1.7), (POSITIONS, VOCAB), &Device::Cpu).unwrap();
        for (goal, of_tensors) in goals().into_iter().zip(goals_of_tensors()) {
            assert_eq!((goal.counted(), of_tensors.counted()), (4, 4));
            let of = |goal| value_and_gradient(&logits, &(loss_sum(&logits, goal).unwrap() * 0.3).unwrap());
            let ((fused, fused_gradient), (slow, slow_gradient)) = (of(&goal), of(&of_tensors));
            assert!((fused - slow).abs() < 1e-6, "{fused} {slow}");
            for (fused, slow) in fused_gradient.iter().zip(&slow_gradient) {
                assert!((fused - slow).abs() < 1e-6, "{fused} {slow}");
            }
            assert_eq!(hits(&logits, &goal).unwrap(), hits(&logits, &of_tensors).unwrap());
        }
    }

    #[test]
    fn a_mix_is_the_same_at_both_places_and_of_one_place_alone() {
        let logits = Tensor::from_vec(logits(1.7), (POSITIONS, VOCAB), &Device::Cpu).unwrap();
        let mixes = [DeviceKind::Cpu, DeviceKind::Candle].map(|kind| {
            let place = Place::open(kind).unwrap();
            Goal::of_tokens_in_part(&COUNTED.map(|counted| counted.then_some(3)), VOCAB, 0.5, &place).unwrap()
        });
        let [mut rows, mut tensors] = mixes;
        for (salt, weight) in [(2.3, 0.2), (0.9, 0.3)] {
            rows.add(Goal::Distribution(said(salt)), weight).unwrap();
            tensors.add(Goal::Tensors(said_by_tensors(salt)), weight).unwrap();
        }
        let fault = rows.add(Goal::Tensors(said_by_tensors(0.9)), 0.3).unwrap_err().to_string();
        assert!(fault.contains("what is said at two places cannot be mixed"), "{fault}");
        assert_eq!(hits(&logits, &rows).unwrap(), hits(&logits, &tensors).unwrap());
        let [rows, tensors] = [rows, tensors].map(|goal| loss_sum(&logits, &Arc::new(goal)).unwrap());
        let (rows, tensors) = (rows.to_scalar::<f64>().unwrap(), tensors.to_scalar::<f64>().unwrap());
        assert!((rows - tensors).abs() < 1e-5, "{rows} {tensors}");
    }

    #[test]
    fn saying_what_the_target_says_costs_nothing() {
        let target: Vec<f32> = logits(2.3).into_iter().map(|x| x as f32).collect();
        let distribution = Distribution::of_logits(target.clone(), VOCAB, &[true; POSITIONS]).unwrap();
        let goal = Arc::new(Goal::Distribution(distribution));
        let logits = Tensor::from_vec(target, (POSITIONS, VOCAB), &Device::Cpu).unwrap();
        let loss: f32 = loss_sum(&logits, &goal).unwrap().to_scalar().unwrap();
        assert!(loss.abs() < 1e-5, "{loss}");
        assert_eq!(hits(&logits, &goal).unwrap(), POSITIONS);
    }

    #[test]
    fn the_loss_towards_a_mix_is_the_mix_of_the_losses() {
        let tokens = vec![Some(3), None, Some(0), Some(6), Some(2)];
        let counted: Vec<bool> = tokens.iter().map(Option::is_some).collect();
        let said = [2.3, 0.9].map(|salt| {
            let target = logits(salt).into_iter().map(|x| x as f32).collect();
            Distribution::of_logits(target, VOCAB, &counted).unwrap()
        });
        let logits = Tensor::from_vec(logits(1.7), (POSITIONS, VOCAB), &Device::Cpu).unwrap();
        let loss = |goal| loss_sum(&logits, &Arc::new(goal)).unwrap().to_scalar::<f64>().unwrap();
        let mut mix = Distribution::of_tokens(&tokens, VOCAB, 0.5);
        mix.add(&said[0], 0.2);
        mix.add(&said[1], 0.3);
        let [one, other] = said.map(|said| loss(Goal::Distribution(said)));
        let expected = 0.5 * loss(Goal::Tokens(tokens.clone())) + 0.2 * one + 0.3 * other;
        assert_eq!(
            hits(&logits, &Goal::Distribution(mix.clone())).unwrap(),
            hits(&logits, &Goal::Tokens(tokens)).unwrap()
        );
        let found = loss(Goal::Distribution(mix));
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }

    #[test]
    fn only_counted_positions_are_hit() {
        let mut rows = vec![0.0_f32; POSITIONS * VOCAB];
        for (position, token) in [3, 1, 1, 6, 2].into_iter().enumerate() {
            rows[position * VOCAB + token] = 1.0;
        }
        let logits = Tensor::from_vec(rows, (POSITIONS, VOCAB), &Device::Cpu).unwrap();
        assert_eq!(hits(&logits, &goals()[0]).unwrap(), 3);
    }
}
