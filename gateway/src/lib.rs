//! The gateway: the only door.
//!
//! A request is validated once, against a directory of
//! the verifiers and drafters that have described themselves, and tokenized with
//! the target's own tokenizer, which came over the wire. Then a sequence is
//! opened with a drafter, rounds are granted as fast as the client reads, and
//! text is streamed. When a drafter or a verifier is lost, the sequence is opened
//! again from what is committed, if need be on the verifier alone, with n-gram
//! proposals.
//!
//! It holds no weights and links no tensor library.

mod config;
mod directory;
mod error;
mod generation;
mod peers;
mod profiles;
mod rounds;
mod route;
mod service;
mod stream;
mod tally;
mod validate;

pub use config::{Args, Config, ConfigError, PEERS_MAX, REQUESTS_LIMIT};
pub use error::{GatewayError, RequestError};
pub use profiles::{PROFILES_BYTES_MAX, ParseError, Profiles, ProfilesError};
pub use service::{Gateway, serve};
