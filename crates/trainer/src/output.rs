//! What a training leaves behind: a folder in Hugging Face format, a model card, a log and a curve.

mod card;
pub(crate) mod config;
mod curve;
mod folder;
mod log;
mod tensors;

pub(crate) use folder::{Summary, occupied, save};
pub use log::{Entry, ExitScore, Validation};
pub(crate) use log::Log;
pub(crate) use tensors::{Archive, write_tensors};
