//! The optimiser's arithmetic by tensor operations, wherever the tensors are.

use candle_core::{D, DType, Tensor, Var};

use super::update::{EPSILON, Moments, Update};
use crate::error::Result;

/// The sum of squares: a scalar of f64, still on the device.
pub(super) fn square_sum(tensor: &Tensor) -> Result<Tensor> {
    // Row by row first: a sum that comes to one number is done by a small part of a GPU.
    Ok(tensor.sqr()?.sum(D::Minus1)?.sum_all()?.to_dtype(DType::F64)?)
}

/// Moves a tensor against its gradient.
pub(super) fn update(var: &Var, moments: &mut Moments, gradient: &Tensor, update: &Update) -> Result<()> {
    let &Update { keep_mean, add_gradient, keep_square, add_square, keep_weight, rate, square_scale } = update;
    let Moments { mean, square } = moments;
    *mean = ((&*mean * keep_mean)? + (gradient * add_gradient)?)?;
    *square = ((&*square * keep_square)? + (gradient.sqr()? * add_square)?)?;
    let moved = ((&*mean * rate)? / ((&*square * square_scale)?.sqrt()? + EPSILON)?)?;
    Ok(var.set(&((var.as_detached_tensor() * keep_weight)? - moved)?)?)
}
