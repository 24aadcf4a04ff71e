//! What travels with a request beside its message: how much time is left, and
//! to which trace it belongs (W3C `traceparent`).

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tonic::metadata::MetadataMap;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::deadline::{Deadline, TIMEOUT_HEADER};

/// The metadata of a call made on behalf of the current span, due by `deadline`.
pub fn outgoing(deadline: Option<Deadline>) -> MetadataMap {
    let mut headers = HeaderMap::new();
    if let Some(deadline) = deadline {
        Headers(&mut headers).set(TIMEOUT_HEADER, deadline.timeout_value());
    }
    let context = Span::current().context();
    TraceContextPropagator::new().inject_context(&context, &mut Headers(&mut headers));
    MetadataMap::from_headers(headers)
}

/// The span of one call, a child of the caller's.
pub fn rpc_span(request: &Request<()>) -> Span {
    let span = tracing::info_span!("rpc", method = request.uri().path());
    let parent = TraceContextPropagator::new().extract(&ReadHeaders(request.headers()));
    // Refused only where no exporter is installed; then there is no trace to join.
    let _ = span.set_parent(parent);
    span
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (key.parse::<HeaderName>(), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

struct ReadHeaders<'a>(&'a HeaderMap);

impl Extractor for ReadHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use opentelemetry::trace::{TraceContextExt, TracerProvider};
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_call_made_inside_a_call_belongs_to_the_same_trace() {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let incoming =
                Request::builder().header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01")).body(()).unwrap();
            let span = rpc_span(&incoming);
            let outgoing = span.in_scope(|| outgoing(None));
            let parent = outgoing.get("traceparent").unwrap().to_str().unwrap();
            assert!(parent.contains(TRACE));
            assert!(!parent.contains("00f067aa0ba902b7"), "its parent is our span, not the caller's");
            assert!(span.context().span().span_context().is_valid());
        });
    }

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
