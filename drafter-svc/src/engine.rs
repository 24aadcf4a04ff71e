//! The model and what it does for each sequence.

mod drafting;
mod thread;

pub(crate) use drafting::{Drafting, Request};
pub(crate) use thread::Engine;
