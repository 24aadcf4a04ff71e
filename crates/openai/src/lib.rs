//! OpenAI's HTTP API in terms of the gateway's own: what a request asks for, and what its client is told.
//!
//! Everything is pure: bytes and the time are passed in. A field that is not understood is refused by its name, and so is a
//! value that would change the answer and cannot be had: nothing is left out in silence.

mod answer;
mod calls;
mod chat;
mod constraint;
mod error;
mod fields;
mod logprobs;
mod prompt;
mod request;
mod sampling;
mod tokens;
mod tools;

pub use answer::{Answer, Choice, Names, Part, Usage};
pub use chat::Telling;
pub use error::{ErrorBody, ErrorReply, RequestError};
pub use request::{Asked, Kind};
pub use tokens::{Tokens, TokensAsked};
