//! Traces: where spans are sent, and how a trace follows a request (W3C `traceparent`).
//!
//! Without the feature `otlp` there are none: what would begin or join one does nothing.

#[cfg(not(feature = "otlp"))]
mod absent;
#[cfg(feature = "otlp")]
mod otlp;

use thiserror::Error;
use tracing_subscriber::{Layer, Registry};

#[cfg(not(feature = "otlp"))]
pub(crate) use absent::{Traces, hand_on, join};
#[cfg(feature = "otlp")]
pub(crate) use otlp::{Traces, hand_on, join};

/// What takes spans from where they are made.
type SpanLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// No exporter can be made for an endpoint.
#[derive(Debug, Error)]
#[error("traces cannot be sent to `{endpoint}`")]
pub struct ExporterError {
    /// The endpoint as it was given.
    pub endpoint: String,
    /// What is wrong with it.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}
