//! What is wrong with sampling parameters, and how much of a bias there may be.

use crate::Token;

/// The most tokens that one request may bias.
pub const LOGIT_BIASES_MAX: usize = 1024;

/// A bias is between minus this and this.
pub const LOGIT_BIAS_MAX: f64 = 100.0;

/// Why sampling parameters were refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A temperature that is negative or not finite.
    #[error("temperature {found} is not a finite number of at least 0")]
    Temperature {
        /// The temperature asked for.
        found: f64,
    },
    /// A nucleus that is empty, beyond everything, or not a number.
    #[error("top_p {found} is not above 0 and at most 1")]
    TopP {
        /// The nucleus asked for.
        found: f64,
    },
    /// A share of the greatest probability that is none.
    #[error("min_p {found} is not between 0 and 1")]
    MinP {
        /// The share asked for.
        found: f64,
    },
    /// A penalty out of its range.
    #[error("{name} {found} is not between {least} and {most}")]
    Penalty {
        /// Which penalty.
        name: &'static str,
        /// The penalty asked for.
        found: f64,
        /// The least there may be.
        least: f64,
        /// The most there may be.
        most: f64,
    },
    /// A logit bias out of its range.
    #[error("the bias of token {token} is {found}, which is not between -{LOGIT_BIAS_MAX} and {LOGIT_BIAS_MAX}")]
    Bias {
        /// The token.
        token: Token,
        /// The bias asked for.
        found: f64,
    },
    /// Too many logit biases.
    #[error("more than {LOGIT_BIASES_MAX} tokens are biased")]
    Biases,
    /// Two biases for one token.
    #[error("token {token} is biased more than once")]
    BiasedTwice {
        /// The token.
        token: Token,
    },
}
