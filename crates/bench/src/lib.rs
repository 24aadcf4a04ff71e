//! What speculation gains, costs and leaves behind, measured over real gRPC: the commands of `espalier bench`.
//!
//! Each command is a module that owns its options: [`Bench`] is all of them, and [`run`] runs one. [`compare`] and
//! [`Pace`] are for others who measure.

mod calibration;
mod command;
mod comparison;
mod decode;
mod draws;
mod error;
mod kernels;
mod limits;
mod load;
mod pace;
mod perf;
mod perplexity;
mod plot;
mod policies;
mod soak;
mod statistics;
#[cfg(test)]
mod testing;
mod turns;

pub use calibration::Calibration;
pub use command::{Bench, run};
pub use comparison::{Comparison, Costs, compare};
pub use decode::Decode;
pub use error::BenchError;
pub use kernels::Kernels;
pub use load::Load;
pub use pace::Pace;
pub use perf::{Perf, PerfError};
pub use perplexity::Perplexity;
pub use policies::Policies;
pub use soak::Soak;
pub use turns::order;
