//! Traces that are sent by OTLP over gRPC.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;

use super::{ExporterError, SpanLayer};

/// Sending the last spans at the end of a process takes no longer than this.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// The traces of a process; the last spans are sent when it is dropped.
#[derive(Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    service: &'static str,
}

impl Traces {
    /// Traces that are sent to `endpoint`. Needs a running tokio runtime.
    ///
    /// # Errors
    /// An endpoint that is no address.
    pub(crate) fn sent_to(endpoint: &str, service: &'static str) -> Result<Self, ExporterError> {
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let refused = |source| ExporterError { endpoint: endpoint.to_owned(), source: Box::new(source) };
        let provider = SdkTracerProvider::builder()
            .with_resource(Resource::builder().with_service_name(service).build())
            .with_batch_exporter(exporter.map_err(refused)?)
            .build();
        Ok(Self { provider, service })
    }

    /// What takes the spans.
    pub(crate) fn layer(&self) -> Option<SpanLayer> {
        Some(tracing_opentelemetry::layer().with_tracer(self.provider.tracer(self.service)).boxed())
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(failure) = self.provider.shutdown_with_timeout(FLUSH_MAX) {
            tracing::warn!(%failure, "the last spans could not be sent");
        }
    }
}

/// Adds the current span's trace, if it has one, to the headers of a call.
pub(crate) fn hand_on(headers: &mut HeaderMap) {
    let context = Span::current().context();
    TraceContextPropagator::new().inject_context(&context, &mut WriteHeaders(headers));
}

/// Makes a span part of the trace that the headers of a call name.
pub(crate) fn join(span: &Span, headers: &HeaderMap) {
    let parent = TraceContextPropagator::new().extract(&ReadHeaders(headers));
    // Refused only where no exporter is installed; then there is no trace to join.
    let _ = span.set_parent(parent);
}

struct WriteHeaders<'a>(&'a mut HeaderMap);

impl Injector for WriteHeaders<'_> {
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

    use opentelemetry::trace::TraceContextExt;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_call_made_inside_a_call_belongs_to_the_same_trace() {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let mut incoming = HeaderMap::new();
            incoming.insert("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01").parse().unwrap());
            let span = tracing::info_span!("rpc");
            join(&span, &incoming);
            let mut outgoing = HeaderMap::new();
            span.in_scope(|| hand_on(&mut outgoing));
            let parent = outgoing.get("traceparent").unwrap().to_str().unwrap();
            assert!(parent.contains(TRACE));
            assert!(!parent.contains("00f067aa0ba902b7"), "its parent is our span, not the caller's");
            assert!(span.context().span().span_context().is_valid());
        });
    }

    #[tokio::test]
    async fn an_endpoint_that_is_no_address_is_quoted() {
        let refusal = Traces::sent_to("not an address", "test").expect_err("no address");
        assert!(refusal.to_string().contains("`not an address`"));
    }
}
