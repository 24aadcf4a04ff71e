//! The round loop: propose a tree, have it verified, commit what survived.
//!
//! [`Driver`] runs one sequence over two ports, a [`Proposer`] and a
//! [`Verifier`]. It knows neither model nor service: a drafter puts its engine
//! behind the first port, a gateway without a drafter [`Ngram`] or [`Plain`];
//! behind the second there is usually a [`RemoteVerifier`]. [`Grants`] are the
//! reins: without any left, no round begins.
//!
//! Whatever goes wrong is a [`Fault`](espalier_proto::Fault) that names the party to blame.

mod driver;
mod fallback;
mod grants;
mod growth;
mod ports;
mod remote;
mod rest;
mod sequence;
mod states;

pub use driver::{Driver, EVENTS_MAX, Event, Events};
pub use fallback::{Ngram, Plain};
pub use grants::{GRANTS_HELD_MAX, Grants};
pub use growth::Growth;
pub use ports::{Proposer, Verifier};
pub use remote::RemoteVerifier;
pub use rest::Rest;
pub use sequence::{Feedback, Proposed, Sequence};
