//! The model and what it does for each sequence.

mod committed;
mod drafting;
mod exits;
mod memory;
mod prediction;
mod share;
mod step;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use drafting::{Drafting, Setup};
pub(crate) use exits::{Exits, SharedTuner, Tuning};
pub(crate) use memory::Memory;
pub use share::{PASS_ROWS, RowShares, SequenceNumber, StepAsk};
pub use step::LEVEL_ROWS_MAX;
pub(crate) use thread::{Engine, Reading, SequenceHandle};
