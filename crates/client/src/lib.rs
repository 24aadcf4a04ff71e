//! A client of the gateway: ask, read tokens as they come, know how long they took.

mod answer;
mod client;
mod error;
mod resume;

pub use answer::Answer;
pub use client::Client;
pub use error::ClientError;
