//! The rounds of an answer, for whoever wants to see what was drafted and what became of it.
//!
//! [`Round`] is a round as JSON: a stream of the HTTP API tells it, and a [`Trace`] is a file of them. [`terminal`] draws
//! their trees as text, [`page`] as a page that needs nothing but a browser.

pub mod page;
mod round;
pub mod terminal;
mod trace;

pub use round::{Fate, Node, Round, Token};
pub use trace::{Trace, TraceError};
