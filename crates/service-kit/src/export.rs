//! What is sent to OpenTelemetry's collectors: spans and metrics, and how a trace follows a request (W3C `traceparent`).
//!
//! Without the feature `otlp` nothing is: what would begin or join a trace does nothing.

#[cfg(not(feature = "otlp"))]
mod absent;
#[cfg(feature = "otlp")]
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;

use thiserror::Error;
use tracing_subscriber::{Layer, Registry};

#[cfg(not(feature = "otlp"))]
pub(crate) use absent::{Export, hand_on, join, trace_id};
#[cfg(feature = "otlp")]
pub(crate) use otlp::{Export, hand_on, join, trace_id};

use crate::program::Program;

/// What takes spans from where they are made.
type SpanLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Where a process sends what it tells.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "otlp"), allow(dead_code))]
pub(crate) struct Destination<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) program: Program,
    /// The share of requests that are traced.
    pub(crate) trace_ratio: f64,
}

/// Nothing can be sent to an endpoint.
#[derive(Debug, Error)]
#[error("traces and metrics cannot be sent to `{endpoint}`")]
pub struct ExporterError {
    /// The endpoint as it was given.
    pub endpoint: String,
    /// What is wrong with it.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}
