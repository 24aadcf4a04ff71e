//! What the commands of `espalier` share: prompts and the requests made of them, a system to ask, and what people see.

mod decoding;
mod error;
pub mod prompts;
pub mod report;
mod request;
mod running;
mod verdict;

pub use decoding::{Answers, Decoding, DrafterArg, PolicyArg};
pub use error::CommandError;
pub use prompts::PromptArgs;
pub use request::{Form, request};
pub use running::{OneTarget, start};
pub use verdict::Verdict;
