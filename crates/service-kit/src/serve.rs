//! A server from its listener to its end.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use clap::Parser;
use espalier_metrics::Source;
use futures::{Stream, StreamExt};
use http::{Request, Response};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::{InterceptorLayer, Routes};
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::Service;

use crate::coalesce::Coalesced;
use crate::deadline_layer::DeadlineLayer;
use crate::incoming::{Bounds, Caller, incoming};
use crate::monitor::{Monitor, Monitored, Standing};
use crate::propagation::rpc_span;
use crate::tls::ServerTls;
use crate::wire::{Arrivals, Duplex, Taken, tcp_arrivals};

/// Calls that one connection may have open, and that may be given up on it before they were looked at: it may be a gateway's,
/// with the calls of all its clients.
const STREAMS_PER_CONNECTION_MAX: u32 = 1024;

/// Bytes of headers that one request may carry.
const HEADER_BYTES_MAX: u32 = 16 * 1024;

/// A client is asked for a sign of life after so much silence.
const CLIENT_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// A client that owes a sign of life for so long is gone, and all it held is freed.
const CLIENT_KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How a server ends once it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long it goes on taking calls after it has said that it takes none: until those who choose among servers know.
    pub announce: Duration,
    /// How long running calls may go on after that.
    pub limit: Duration,
}

impl Drain {
    /// How long running calls may go on unless told otherwise.
    pub const LIMIT: Duration = Duration::from_secs(20);

    /// Longer than the second in which a gateway asks again.
    pub const ANNOUNCE: Duration = Duration::from_secs(2);
}

/// Calls are refused at once: nobody chooses among servers.
impl Default for Drain {
    fn default() -> Self {
        Self { announce: Duration::ZERO, limit: Self::LIMIT }
    }
}

/// The options of a server's end.
#[derive(Debug, Clone, Parser)]
pub struct DrainArgs {
    /// Seconds for which calls are still taken after readiness was turned off, so that gateways and load balancers learn of
    /// it first
    #[arg(long, env = "ESPALIER_DRAIN_ANNOUNCE", default_value_t = Drain::ANNOUNCE.as_secs(), value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=600))]
    pub drain_announce: u64,
    /// Seconds for which running calls may go on after that
    #[arg(long, env = "ESPALIER_DRAIN_MAX", default_value_t = Drain::LIMIT.as_secs(), value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub drain_max: u64,
}

impl DrainArgs {
    /// What they come to.
    pub fn drain(&self) -> Drain {
        Drain { announce: Duration::from_secs(self.drain_announce), limit: Duration::from_secs(self.drain_max) }
    }
}

/// Why a server could not start or go on.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Another process listens there.
    #[error("the address {address} is already in use")]
    InUse {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The address cannot be listened on for another reason.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The reflection service does not understand the protocol's description.
    #[error("the protocol's description cannot be served by reflection")]
    Reflection(#[source] tonic_reflection::server::Error),
    /// The transport failed while serving.
    #[error("the server on {address} failed")]
    Transport {
        /// Where it listened.
        address: SocketAddr,
        /// What the transport said.
        source: tonic::transport::Error,
    },
}

/// Takes an address; port 0 lets the system choose one.
///
/// # Errors
/// [`ServeError::InUse`] and [`ServeError::Listen`] name the address.
pub async fn bind(address: SocketAddr) -> Result<Bound, ServeError> {
    let (listener, address) = listener(address).await?;
    Ok(Bound {
        arrivals: tcp_arrivals(listener),
        address,
        drain: Drain::default(),
        tls: None,
        monitored: None,
        http: None,
    })
}

/// What listens at an address, and where that is.
pub(crate) async fn listener(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listen = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::InUse { address },
        _ => ServeError::Listen { address, source },
    };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    Ok((listener, address))
}

/// An address that is held but not served yet: clients connect and wait.
pub struct Bound {
    arrivals: Arrivals,
    address: SocketAddr,
    drain: Drain,
    tls: Option<ServerTls>,
    monitored: Option<Monitored>,
    http: Option<Router>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("address", &self.address).field("drain", &self.drain).finish_non_exhaustive()
    }
}

impl Bound {
    /// An address whose connections come from elsewhere, each with who has opened it: of a network that is none, such as a
    /// simulated one.
    pub fn over<D>(
        address: SocketAddr,
        connections: impl Stream<Item = io::Result<(D, SocketAddr)>> + Send + 'static,
    ) -> Self
    where
        D: Duplex + 'static,
    {
        let taken = |(stream, caller)| Taken { wire: Box::new(stream), caller };
        let arrivals = connections.map(move |connection| connection.map(taken)).boxed();
        Self { arrivals, address, drain: Drain::default(), tls: None, monitored: None, http: None }
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same with another end.
    #[must_use]
    pub fn with_drain(self, drain: Drain) -> Self {
        Self { drain, ..self }
    }

    /// The same under TLS, where there is some.
    #[must_use]
    pub fn with_tls(self, tls: Option<ServerTls>) -> Self {
        Self { tls, ..self }
    }

    /// The same with calls beside those of gRPC, over HTTP/1 or 2.
    #[must_use]
    pub fn with_http(self, http: Router) -> Self {
        Self { http: Some(http), ..self }
    }

    /// The same, watched as a service of its process.
    #[must_use]
    pub fn watched_as(self, service: Monitored) -> Self {
        Self { monitored: Some(service), ..self }
    }

    /// What is told of the process, if anybody watches it.
    pub fn monitor(&self) -> Option<Monitor> {
        self.monitored.as_ref().map(|monitored| monitored.monitor().clone())
    }

    /// Has the service's measurements told to those who watch it, if anybody may.
    pub fn tells(&self, source: impl Source + 'static) {
        if let Some(monitored) = &self.monitored {
            monitored.tells(source);
        }
    }

    /// The address as other services write it.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Serves `service` with health and reflection (`descriptor` is the encoded
    /// description of the protocol) until `shutdown` is ready. Then health turns
    /// to not serving; after the time that this takes to be known no call is taken
    /// any more, and running ones may go on for a while before they are dropped.
    ///
    /// # Errors
    /// [`ServeError::Reflection`] and [`ServeError::Transport`].
    pub async fn serve<S>(
        self,
        service: S,
        descriptor: &[u8],
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send,
    {
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<S>().await;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(descriptor)
            .build_v1()
            .map_err(ServeError::Reflection)?;
        let mut routes = Routes::new(service).add_service(health_service).add_service(reflection);
        if let Some(http) = &self.http {
            routes = Routes::from(routes.into_axum_router().merge(http.clone()));
        }
        let (address, drain, monitored) = (self.address, self.drain, self.monitored.clone());
        let stands = move |standing| monitored.iter().for_each(|service| service.stands(standing));
        stands(Standing::Serving);
        let (stopping, stopped) = oneshot::channel();
        let stop = async move {
            shutdown.await;
            stands(Standing::Draining);
            turn_unready::<S>(&health).await;
            tokio::time::sleep(drain.announce).await;
            // Nobody listens any more only if the server has ended by itself.
            let _ = stopping.send(());
        };
        // It is large, and so would be all that wait for it.
        let run = Box::pin(self.run(routes, stop));
        tokio::select! {
            biased;
            ended = run => ended,
            () = drained_too_long(stopped, drain.limit) => {
                tracing::warn!(%address, "calls still running after the drain time were dropped");
                Ok(())
            }
        }
    }

    async fn run(self, routes: Routes, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        let address = self.address;
        let incoming = incoming(self.arrivals, Bounds::of_system(), self.tls);
        let incoming = incoming.map(|accepted| accepted.map(Coalesced::new));
        Server::builder()
            .accept_http1(self.http.is_some())
            .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
            .http2_max_pending_accept_reset_streams(Some(STREAMS_PER_CONNECTION_MAX as usize))
            .http2_max_header_list_size(HEADER_BYTES_MAX)
            .http2_keepalive_interval(Some(CLIENT_KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(CLIENT_KEEPALIVE_TIMEOUT))
            .trace_fn(rpc_span)
            .layer(InterceptorLayer::new(Caller::admit))
            .layer(DeadlineLayer)
            .add_routes(routes)
            .serve_with_incoming_shutdown(incoming, stop)
            .await
            .map_err(|source| ServeError::Transport { address, source })
    }
}

async fn turn_unready<S: NamedService>(health: &HealthReporter) {
    health.set_service_status("", ServingStatus::NotServing).await;
    health.set_not_serving::<S>().await;
}

/// Ready when the drain time after the stop is over; never without a stop.
async fn drained_too_long(stopped: oneshot::Receiver<()>, limit: Duration) {
    match stopped.await {
        Ok(()) => tokio::time::sleep(limit).await,
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::Ipv4Addr;

    use tokio::net::TcpStream;
    use tonic_health::pb::FILE_DESCRIPTOR_SET;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;
    use crate::connect::channel;
    use crate::health::is_serving;
    use crate::propagation::outgoing;
    use crate::testing::Nothing;

    const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    async fn health_of(client: &mut HealthClient<tonic::transport::Channel>, name: &str) -> ServingStatus {
        let request = HealthCheckRequest { service: name.to_owned() };
        let status = client.check(request).await.unwrap().into_inner().status;
        if status == 1 { ServingStatus::Serving } else { ServingStatus::NotServing }
    }

    #[tokio::test]
    async fn a_port_in_use_is_named_in_one_sentence() {
        let first = bind(ANY_PORT).await.unwrap();
        assert_ne!(first.address().port(), 0);
        let refusal = bind(first.address()).await.unwrap_err();
        assert_eq!(refusal.to_string(), format!("the address {} is already in use", first.address()));
    }

    #[tokio::test]
    async fn a_server_is_healthy_until_it_is_asked_to_end() {
        let bound = bind(ANY_PORT).await.unwrap();
        let url = bound.url();
        let mut client = HealthClient::new(channel(&url).unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(bound.serve(Nothing, FILE_DESCRIPTOR_SET, async {
            stopped.await.ok();
        }));
        assert_eq!(health_of(&mut client, "").await, ServingStatus::Serving);
        assert!(is_serving(channel(&url).unwrap(), outgoing(None)).await.unwrap());
        assert_eq!(health_of(&mut client, Nothing::NAME).await, ServingStatus::Serving);

        let request = HealthCheckRequest { service: String::new() };
        let mut watch = client.watch(request).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
        stop.send(()).unwrap();
        assert_eq!(watch.message().await.unwrap().unwrap().status, 2, "a watcher learns of the drain");
        drop((watch, client));
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn many_calls_that_are_given_up_at_once_end_no_other() {
        const GIVEN_UP: usize = 500;
        let bound = bind(ANY_PORT).await.unwrap();
        let (address, url) = (bound.address(), bound.url());
        let server = tokio::spawn(bound.serve(Nothing, FILE_DESCRIPTOR_SET, std::future::pending()));
        let (mut calls, connection) = h2::client::handshake(TcpStream::connect(address).await.unwrap()).await.unwrap();
        let connection = tokio::spawn(connection);
        let call = || Request::post(format!("{url}/grpc.health.v1.Health/Watch")).body(()).unwrap();
        let (stays, mut message) = calls.send_request(call(), false).unwrap();
        for _ in 0..GIVEN_UP {
            calls = calls.ready().await.unwrap();
            let (_, mut call) = calls.send_request(call(), false).unwrap();
            call.send_reset(h2::Reason::CANCEL);
        }
        // An empty one.
        message.send_data(vec![0; 5].into(), true).unwrap();
        assert_eq!(stays.await.unwrap().status(), 200);
        connection.abort();
        server.abort();
    }

    #[tokio::test]
    async fn calls_are_taken_until_all_know_that_none_are() {
        let bound = bind(ANY_PORT).await.unwrap();
        let url = bound.url();
        let mut client = HealthClient::new(channel(&url).unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let drain = Drain { announce: Duration::from_millis(500), ..Drain::default() };
        let server = tokio::spawn(bound.with_drain(drain).serve(Nothing, FILE_DESCRIPTOR_SET, async {
            stopped.await.ok();
        }));
        assert_eq!(health_of(&mut client, "").await, ServingStatus::Serving);
        let mut watch = client.watch(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
        stop.send(()).unwrap();
        assert_eq!(watch.message().await.unwrap().unwrap().status, 2);
        // A connection of its own is still taken.
        let mut late = HealthClient::new(channel(&url).unwrap());
        assert_eq!(health_of(&mut late, "").await, ServingStatus::NotServing);
        drop((watch, client, late));
        server.await.unwrap().unwrap();
        let request = HealthCheckRequest { service: String::new() };
        assert!(HealthClient::new(channel(&url).unwrap()).check(request).await.is_err());
    }

    #[tokio::test]
    async fn a_description_that_is_none_is_refused() {
        let bound = bind(ANY_PORT).await.unwrap();
        let refusal = bound.serve(Nothing, b"no descriptor", std::future::pending()).await.unwrap_err();
        assert!(matches!(refusal, ServeError::Reflection(_)));
    }
}
