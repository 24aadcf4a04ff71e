//! Measurements.

pub(crate) mod calibration;
pub(crate) mod decode;
pub(crate) mod kernels;
mod plot;
pub(crate) mod policies;
mod statistics;
