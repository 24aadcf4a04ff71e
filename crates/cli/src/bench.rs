//! Measurements.

pub(crate) mod calibration;
pub(crate) mod decode;
mod draws;
pub(crate) mod kernels;
pub(crate) mod load;
pub(crate) mod perf;
mod plot;
pub(crate) mod policies;
pub(crate) mod soak;
mod statistics;
