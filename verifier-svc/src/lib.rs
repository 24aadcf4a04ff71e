//! The verifier: hosts one target model, and has the last word on every token.
//!
//! [`Target`] is a loaded model that has measured what it costs; [`serve`] puts
//! it behind gRPC. The model lives on one thread: each of its turns runs the
//! waiting trees of all sequences, and pieces of new prompts, in one forward
//! pass. A sequence is one `Verify` stream; when the stream is dropped, its
//! cache and its slot are freed before the next turn.
//!
//! It knows neither drafters nor policies: any tree is checked, and the text is
//! the target's own whatever is proposed.

mod admission;
mod config;
mod conversation;
mod counts;
mod engine;
mod error;
mod service;
mod status;
mod target;

pub use config::{Args, Config, ConfigError, ConfigFault, SEQUENCES_LIMIT, TREE_NODES_LIMIT};
pub use engine::{Pass, PromptTime, Return, TURN_ROWS_MAX, choose_prompts};
pub use error::{ServiceError, VerifierError};
pub use service::serve;
pub use target::{LoadError, Target};
