//! Constraints of the shipped models' texts.
#![allow(clippy::unwrap_used)]

mod following;
mod refused;
mod support;
