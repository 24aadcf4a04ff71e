//! What a training leaves behind: a folder in Hugging Face format, a model card, a log and a curve.

mod card;
pub(crate) mod config;
pub(crate) mod curve;
mod folder;
mod log;
mod summary;
mod tensors;

pub(crate) use folder::{occupied, save};
pub(crate) use log::Log;
pub use log::{Entry, ExitScore, Validation};
pub use summary::Summary;
pub(crate) use tensors::{Archive, write_tensors};
