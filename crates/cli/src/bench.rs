//! Measurements.

pub(crate) mod decode;
pub(crate) mod kernels;
mod statistics;
