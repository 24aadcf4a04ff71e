//! What a program does that was built without traces.

use http::HeaderMap;
use tracing::Span;

use super::{ExporterError, SpanLayer};

/// The traces that are not sent.
#[derive(Debug)]
pub(crate) struct Traces;

impl Traces {
    pub(crate) fn sent_to(_endpoint: &str, _service: &'static str) -> Result<Self, ExporterError> {
        Ok(Self)
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn layer(&self) -> Option<SpanLayer> {
        None
    }
}

/// Hands no trace on.
pub(crate) fn hand_on(_headers: &mut HeaderMap) {}

/// Joins no trace.
pub(crate) fn join(_span: &Span, _headers: &HeaderMap) {}
