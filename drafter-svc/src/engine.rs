//! The model and what it does for each sequence.

mod drafting;
mod exits;
mod loan;
mod memory;
mod past;
mod prediction;
mod share;
mod step;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use drafting::{Drafting, Request};
pub(crate) use exits::{Exits, SharedTuner, Tuning};
pub(crate) use loan::Loan;
pub(crate) use memory::Memory;
pub(crate) use thread::{Engine, Session};
