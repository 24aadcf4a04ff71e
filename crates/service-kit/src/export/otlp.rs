//! Spans that are sent by OTLP over gRPC.

use std::error::Error;
use std::time::Duration;

use espalier_metrics::{Reporter, TraceId};
use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::KeyValue;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tonic::transport::Channel;
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;

use super::metrics::Sending;
use super::{Destination, ExporterError, SpanLayer};
use crate::connect::Dialer;
use crate::monitor::Monitor;
use crate::program::Program;
use crate::tls::{ClientTls, TlsFiles};

/// Sending the last spans at the end of a process takes no longer than this.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Sends spans and metrics, until it is ended.
#[derive(Debug)]
pub(crate) struct Export {
    provider: SdkTracerProvider,
    metrics: Sending,
    program: &'static str,
}

impl Export {
    /// Begins. Needs a running tokio runtime.
    ///
    /// # Errors
    /// An endpoint that is no address.
    pub(crate) fn begin(to: &Destination<'_>, monitor: &Monitor) -> Result<Self, ExporterError> {
        let refused = |source: Box<dyn Error + Send + Sync>| ExporterError { endpoint: to.endpoint.to_owned(), source };
        let channel = channel(to.endpoint).map_err(&refused)?;
        let exporter = SpanExporter::builder().with_tonic().with_channel(channel.clone()).build();
        let resource = resource(to.program);
        let reporter = reporter(&resource);
        let sampled = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(to.trace_ratio)));
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(sampled)
            .with_batch_exporter(exporter.map_err(|source| refused(source.into()))?)
            .build();
        let metrics = Sending::begin(channel, reporter, monitor.clone());
        Ok(Self { provider, metrics, program: to.program.name })
    }

    /// What takes the spans, and what happens in them. Those of rounds are no lines of the log, so they have a level of
    /// their own.
    pub(crate) fn layer(&self) -> Option<SpanLayer> {
        let filter = Targets::new().with_default(Level::INFO).with_target(ROUNDS, Level::DEBUG);
        // A span is entered and left with every message of a stream: nothing is done then that nobody asks for.
        let spans = tracing_opentelemetry::layer()
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_threads(false)
            .with_location(false);
        Some(spans.with_tracer(self.provider.tracer(self.program)).with_filter(filter).boxed())
    }

    /// Sends what was not sent yet.
    pub(crate) async fn end(self) {
        self.metrics.end().await;
        // It waits for a thread of its own, which needs this runtime.
        let ended = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(FLUSH_MAX)).await;
        if let Ok(Err(failure)) = ended {
            tracing::warn!(%failure, "the last spans could not be sent");
        }
    }
}

/// Where spans of rounds come from.
const ROUNDS: &str = "espalier_round";

/// A channel to a collector: under TLS if its address says so, by the authorities of this machine.
fn channel(endpoint: &str) -> Result<Channel, Box<dyn Error + Send + Sync>> {
    let files = || ClientTls::load(TlsFiles { identity: None, authorities: None });
    let tls = endpoint.starts_with("https://").then(files).transpose()?;
    Ok(Dialer::new(tls).asking_strangers().channel(endpoint)?)
}

/// What the process is: its program, and what `OTEL_RESOURCE_ATTRIBUTES` says.
fn resource(program: Program) -> Resource {
    let version = KeyValue::new("service.version", program.version);
    Resource::builder().with_service_name(program.name).with_attribute(version).build()
}

fn reporter(resource: &Resource) -> Reporter {
    Reporter { attributes: resource.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect() }
}

/// The trace that a span belongs to, if its spans are sent.
pub(crate) fn trace_id(span: &Span) -> Option<TraceId> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_sampled().then(|| context.trace_id().to_bytes())
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
        let program = Program { name: "test", version: "0" };
        let to = Destination { endpoint: "not an address", program, trace_ratio: 1.0 };
        let refusal = Export::begin(&to, &Monitor::new(program)).expect_err("no address");
        assert!(refusal.to_string().contains("`not an address`"));
    }
}
