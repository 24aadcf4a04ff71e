//! What is trained, and towards what: one objective a file.

mod base;
mod cali_ts;
mod contract;
mod distribution;
mod dual_block;
mod early_exit;
mod edd;
mod frozen;
mod loss;
#[cfg(test)]
mod serving_tests;
mod sorted;
mod tensor_goal;
#[cfg(test)]
mod tests;

use crate::error::Result;
use crate::recipe::Method;

pub(crate) use contract::{Exit, Objective, Prediction, Product, Setting};
use distribution::Distribution;
use frozen::Frozen;
pub(crate) use loss::{Goal, hits, loss_sum};
use tensor_goal::TensorGoal;

/// Builds the objective of a method.
///
/// # Errors
/// A checkpoint that cannot be loaded or trained, or sizes that do not fit it.
pub(crate) fn open(method: &Method, setting: &Setting) -> Result<Box<dyn Objective>> {
    Ok(match method {
        Method::Base(method) => Box::new(base::Base::open(method, setting)?),
        Method::Sorted(method) => Box::new(sorted::Sorted::open(method, setting)?),
        Method::Edd(method) => Box::new(edd::Edd::open(method, setting)?),
        Method::EarlyExit(method) => Box::new(early_exit::EarlyExit::open(method, setting)?),
        Method::CaliTs(method) => Box::new(cali_ts::CaliTs::open(method, setting)?),
    })
}
