//! The whole system over gRPC, with real models. One program, as it takes a while to link.

#![allow(clippy::unwrap_used)]

mod agreement;
mod constrained;
mod drafters;
mod failover;
mod hostile;
mod http;
mod locked;
mod lossless;
mod overload;
mod predictors;
mod rejection;
mod rounds;
mod sampling;
mod status;
mod telemetry;
mod tools;
