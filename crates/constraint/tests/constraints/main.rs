//! Constraints of the shipped models' texts.
#![allow(clippy::unwrap_used)]

mod calling;
mod following;
mod refused;
mod support;
