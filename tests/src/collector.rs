//! A collector of what services send by OTLP, on a loopback port.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use espalier_local::ANY_PORT;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// What is not there after this time will not come.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A span, and the service that it is of.
#[derive(Debug, Clone)]
pub struct SpanOf {
    /// The `service.name` of who sent it.
    pub service: String,
    /// The span.
    pub span: Span,
}

impl SpanOf {
    /// The value of an attribute that is a whole number.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match value(&self.span.attributes, name)? {
            any_value::Value::IntValue(value) => Some(*value),
            _ => None,
        }
    }
}

/// What services have sent; clones are the same collector.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    spans: Arc<Mutex<Vec<SpanOf>>>,
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
}

impl Collector {
    /// Collects from now on, at an address of its own.
    pub async fn start() -> (Self, SocketAddr) {
        let collector = Self::default();
        let listener = TcpListener::bind(ANY_PORT).await.unwrap();
        let address = listener.local_addr().unwrap();
        let services = Server::builder()
            .add_service(TraceServiceServer::new(collector.clone()))
            .add_service(MetricsServiceServer::new(collector.clone()));
        tokio::spawn(services.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<SpanOf> {
        self.spans.lock().unwrap().clone()
    }

    /// The last metrics of each service: its name, and the names of its metrics.
    pub fn metrics(&self) -> Vec<(String, Vec<String>)> {
        let sent = self.metrics.lock().unwrap();
        let resources = sent.iter().flat_map(|message| &message.resource_metrics);
        let names = resources.map(|of| {
            let metrics = of.scope_metrics.iter().flat_map(|scope| &scope.metrics);
            (service(of.resource.as_ref()), metrics.map(|metric| metric.name.clone()).collect())
        });
        names.collect()
    }

    /// Waits until what was collected is `enough`, and gives the spans.
    ///
    /// # Panics
    /// If it is not in time.
    pub async fn until(&self, enough: impl Fn(&Self) -> bool) -> Vec<SpanOf> {
        let collected = async {
            while !enough(self) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(WAIT_MAX, collected).await.unwrap_or_else(|_| panic!("not enough was collected: {:#?}", self.spans()));
        self.spans()
    }
}

fn service(resource: Option<&Resource>) -> String {
    match resource.and_then(|resource| value(&resource.attributes, "service.name")) {
        Some(any_value::Value::StringValue(name)) => name.clone(),
        _ => String::new(),
    }
}

fn value<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a any_value::Value> {
    attributes.iter().find(|attribute| attribute.key == name)?.value.as_ref()?.value.as_ref()
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of in request.into_inner().resource_spans {
            let service = service(of.resource.as_ref());
            let spans = of.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.lock().unwrap().extend(spans.map(|span| SpanOf { service: service.clone(), span }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.metrics.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}
