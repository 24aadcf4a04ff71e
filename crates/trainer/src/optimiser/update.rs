//! What one step does to one tensor, whoever computes it.

use candle_core::Tensor;

/// Keeps the quotient finite where the mean of squares is 0.
pub(crate) const EPSILON: f64 = 1e-8;

/// The running means of one tensor's gradients.
#[derive(Debug)]
pub(crate) struct Moments {
    /// Of the gradients.
    pub(crate) mean: Tensor,
    /// Of their squares.
    pub(crate) square: Tensor,
}

/// `mean = keep_mean * mean + add_gradient * gradient`,
/// `square = keep_square * square + add_square * gradient²`,
/// `weight = keep_weight * weight - rate * mean / (sqrt(square_scale * square) + epsilon)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Update {
    pub(super) keep_mean: f64,
    pub(super) add_gradient: f64,
    pub(super) keep_square: f64,
    pub(super) add_square: f64,
    /// What the decay leaves of a weight.
    pub(super) keep_weight: f64,
    /// The learning rate, over the mean's bias.
    pub(super) rate: f64,
    /// One over the square's bias.
    pub(super) square_scale: f64,
}
