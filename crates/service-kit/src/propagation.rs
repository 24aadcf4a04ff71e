//! What travels with a request beside its message: how much time is left, and
//! to which trace it belongs (W3C `traceparent`).

use espalier_metrics::TraceId;
use http::{HeaderMap, HeaderValue, Request};
use tonic::metadata::MetadataMap;
use tracing::{Span, field};

use crate::deadline::{Deadline, TIMEOUT_HEADER};
use crate::export;

/// The metadata of a call made on behalf of the current span, due by `deadline`.
pub fn outgoing(deadline: Option<Deadline>) -> MetadataMap {
    let mut headers = HeaderMap::new();
    if let Some(value) = deadline.and_then(|deadline| HeaderValue::try_from(deadline.timeout_value()).ok()) {
        headers.insert(TIMEOUT_HEADER, value);
    }
    export::hand_on(&mut headers);
    MetadataMap::from_headers(headers)
}

/// The span of one call, a child of the caller's. Log lines within it name its trace, if that is sent.
pub fn rpc_span(request: &Request<()>) -> Span {
    let method = request.uri().path();
    let span = tracing::info_span!("rpc", otel.name = method, otel.kind = "server", trace_id = field::Empty);
    export::join(&span, request.headers());
    if let Some(trace) = export::trace_id(&span) {
        span.record("trace_id", format_args!("{:032x}", u128::from_be_bytes(trace)));
    }
    span
}

/// The trace that the present call belongs to, if its spans are sent.
pub fn current_trace() -> Option<TraceId> {
    export::trace_id(&Span::current())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_next_service_is_told_how_much_time_is_left() {
        let deadline = Deadline::after(Duration::from_millis(80));
        tokio::time::advance(Duration::from_millis(30)).await;
        assert_eq!(outgoing(Some(deadline)).get(TIMEOUT_HEADER).unwrap(), "50000u");
    }

    #[test]
    fn without_a_trace_or_a_deadline_nothing_is_added() {
        assert!(outgoing(None).is_empty());
    }
}
