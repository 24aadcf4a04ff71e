//! What services measure of themselves.
//!
//! [`catalogue`] names every metric, once, with its unit, its labels and what it says. Services keep counts of their own,
//! which they never wait for, and tell them to a [`Snapshot`] when somebody asks, as [`Source`]s of a [`Registry`]. A
//! snapshot has two forms: the text that Prometheus reads ([`Snapshot::text`]) and, with the feature `otlp`, the message
//! that OpenTelemetry's collectors take.
//!
//! It knows nothing of models, trees or services, opens no connection and reads no clock.

pub mod catalogue;
mod histogram;
mod metric;
#[cfg(feature = "otlp")]
mod otlp;
mod registry;
mod snapshot;
mod text;

pub use histogram::{Exemplar, Histogram, HistogramCounts, TraceId};
pub use metric::{Kind, Metric, Unit};
#[cfg(feature = "otlp")]
pub use otlp::{Reporter, Span, export};
pub use registry::{Registry, Source};
pub use snapshot::{Family, Sample, Snapshot, Value};
pub use text::{Text, TextFormat};
