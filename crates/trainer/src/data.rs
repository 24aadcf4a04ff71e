//! Text on its way into a training: documents from JSONL, packed into rows, grouped into batches.

mod batch;
mod course;
mod jsonl;
mod pack;
mod texts;

pub use batch::{Batch, Span};
pub(crate) use course::{Course, Pace};
pub(crate) use texts::{TRAINING_TOKENS_MAX, Texts, Voice};
