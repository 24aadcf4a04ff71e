//! The gateway over gRPC, between a client and toys that play verifiers and drafters.

#![allow(clippy::unwrap_used)]

mod admission;
mod bad_input;
mod black_holes;
mod breaker;
mod discovery;
mod failover;
mod generate;
mod keys;
mod playground;
mod scarce;
mod status;
mod support;
mod templates;
