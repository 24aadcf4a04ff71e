//! Training: language models, and the drafters of the papers for targets that are already there.
//!
//! A [`Recipe`] says what is trained ([`Method`]), on which text ([`DataOptions`]) and how ([`Options`]). [`train`] turns
//! it into a folder in Hugging Face format with a model card, a log and a loss curve; [`resume`] takes up a run that was
//! interrupted and ends at the same bits. Before it, [`write_text`] has a target write the text that its drafters learn
//! from. Progress goes to an [`Observer`]; the crate itself writes to no terminal.
//!
//! Everything random is a function of (seed, purpose, step), see `random`; every file is replaced as a whole, see
//! `files`; gradients are candle's, through operations that keep them, see `nn`.

mod data;
mod error;
mod files;
mod nn;
mod objective;
mod observer;
mod optimiser;
mod output;
mod own_text;
mod place;
mod random;
mod real;
mod recipe;
mod run;
mod target;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;

pub use data::{Batch, Span};
pub use error::{Result, TrainError};
pub use observer::{Blind, Observer, Plan, Speed};
pub use output::{Entry, ExitScore, Summary, Validation};
pub use own_text::{ANSWER_TOKENS_MAX, ANSWERS_AT_A_TIME_MAX, TextRecipe, TextSummary, write_text};
pub use recipe::{
    BATCH_MAX, BLOCK_MAX, BaseMethod, CaliTsMethod, DataOptions, EPOCHS_MAX, EarlyExitMethod, EddMethod, LAYERS_MAX,
    Method, ModelShape, OptimiserOptions, Options, Precision, ROW_LENGTH_MAX, Recipe, Sight, SortedMethod,
    TEACHERS_MAX, THREADS_MAX,
};
pub use run::{CANDLE_THREADS, Outcome, resume, train};
