//! Texts that are held to a JSON schema, a regular expression or a grammar.
//!
//! [`Constraints`] belong to a tokenizer and compile what clients write. What comes of it, [`Compiled`], makes a
//! [`Follower`] for each text: it knows which tokens may come next, behind the text and behind every path of a tree that
//! is drafted for it, and which must. Gateway, drafter and verifier use the same, so they agree.
//!
//! The parser is `llguidance`'s; here are its bounds, and what tokens are to it. Work and memory of a constraint are
//! bounded, when it is compiled and at every token.

mod calls;
mod compiled;
mod compiling;
mod constraints;
mod error;
mod follower;
mod vocabulary;

pub use calls::constraint_of_calls;
pub use compiled::Compiled;
pub use constraints::{COMPILED_MAX, Constraints};
pub use error::ConstraintError;
pub use follower::Follower;
