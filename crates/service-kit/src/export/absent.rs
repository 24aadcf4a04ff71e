//! What a program does that was built without OTLP.

use espalier_metrics::TraceId;
use http::HeaderMap;
use tracing::Span;

use super::{Destination, ExporterError, SpanLayer};
use crate::monitor::Monitor;

/// What is not sent.
#[derive(Debug)]
pub(crate) struct Export;

impl Export {
    pub(crate) fn begin(_: &Destination<'_>, _: &Monitor) -> Result<Self, ExporterError> {
        Ok(Self)
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn layer(&self) -> Option<SpanLayer> {
        None
    }

    #[allow(clippy::unused_async)]
    pub(crate) async fn end(self) {}
}

/// Hands no trace on.
pub(crate) fn hand_on(_headers: &mut HeaderMap) {}

/// Joins no trace.
pub(crate) fn join(_span: &Span, _headers: &HeaderMap) {}

/// There is none.
pub(crate) fn trace_id(_span: &Span) -> Option<TraceId> {
    None
}
