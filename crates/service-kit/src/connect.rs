//! Channels to other services.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::either::Either;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::coalesce::Coalesced;
use crate::connections::{Connections, Counted};
use crate::tls::{ClientTls, Encrypted, Role};
use crate::wire::{Duplex, Opener, Wire};

/// A connection that cannot be made within this time, looking up its name and all, counts as refused.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A peer is asked for a sign of life after so much silence.
const PEER_KEEPALIVE_INTERVAL: Duration = Duration::from_millis(200);

/// A peer that owes a sign of life for so long is gone. What answers does nothing else, so a service whose model is slow
/// is in time; one that is stopped, or cut off, is not.
const PEER_KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(500);

/// Calls that wait for a connection take turns to ask for one. What came of it is told to all that waited meanwhile, which
/// takes a moment.
const FAILURE_KEPT: Duration = Duration::from_millis(100);

/// Requests that may wait inside one channel for their turn.
const CHANNEL_QUEUE_MAX: usize = 1024;

/// An address that no channel can be made for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// The text is no `http://host:port` or `https://host:port`.
    #[error("`{address}` is not an address of the form {scheme}://host:port")]
    Address {
        /// The text as it was given.
        address: String,
        /// What it should begin with.
        scheme: &'static str,
    },
    /// There is nothing to check who answers by.
    #[error("`{address}` needs TLS, but no certificates were given")]
    NoCertificates {
        /// The text as it was given.
        address: String,
    },
    /// What is to be encrypted would not be.
    #[error("`{address}` would be spoken to in the clear, although certificates were given: write https://")]
    Clear {
        /// The text as it was given.
        address: String,
    },
}

/// A way to a server.
#[derive(Debug, Clone)]
pub struct Line {
    /// What calls go through.
    pub channel: Channel,
    /// Whether it is connected.
    pub connections: Connections,
}

/// How servers are connected to: in the clear, or under TLS and in no other way.
#[derive(Debug, Clone)]
pub struct Dialer {
    opener: Opener,
    tls: Option<ClientTls>,
    /// Whether peers are asked for signs of life.
    asks_for_life: bool,
}

/// In the clear, over TCP.
impl Default for Dialer {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Dialer {
    /// Over TCP, under TLS where there is some.
    pub fn new(tls: Option<ClientTls>) -> Self {
        Self { opener: Opener::tcp(), tls, asks_for_life: true }
    }

    /// The same for servers of others, which may end the connection of who asks for signs of life as often as our services do.
    #[cfg_attr(not(feature = "otlp"), allow(dead_code))]
    pub(crate) fn asking_strangers(self) -> Self {
        Self { asks_for_life: false, ..self }
    }

    /// In the clear, over what `open` makes for a host and a port: a network that is none, such as a simulated one.
    pub fn over<F, D>(open: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<D>> + Send + 'static,
        D: Duplex + 'static,
    {
        Self { opener: Opener::new(open), tls: None, asks_for_life: true }
    }

    /// The same for services of one kind, which TLS makes sure of.
    #[must_use]
    pub fn to(&self, role: Role) -> Self {
        Self { tls: self.tls.as_ref().map(|tls| tls.expecting(role)), ..self.clone() }
    }

    /// What addresses begin with.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// A channel to `address` (`http://host:port`, or `https://host:port` under TLS) that connects when it is first
    /// used, notices a dead peer within a second, and connects again by itself.
    ///
    /// # Errors
    /// [`ConnectError`] if the text is no such address; an address where nobody listens, or somebody else, only shows when
    /// the channel is used.
    pub fn channel(&self, address: &str) -> Result<Channel, ConnectError> {
        Ok(self.line(address)?.channel)
    }

    /// As [`Self::channel`], with a look at whether it is connected.
    ///
    /// # Errors
    /// As [`Self::channel`].
    pub fn line(&self, address: &str) -> Result<Line, ConnectError> {
        let (address, scheme) = (address.to_owned(), self.scheme());
        let Ok(endpoint) = Endpoint::from_shared(address.clone()) else {
            return Err(ConnectError::Address { address, scheme });
        };
        match (endpoint.uri().scheme_str(), endpoint.uri().host()) {
            (Some(found), Some(_)) if found == scheme => {}
            (Some("http"), Some(_)) => return Err(ConnectError::Clear { address }),
            (Some("https"), Some(_)) => return Err(ConnectError::NoCertificates { address }),
            _ => return Err(ConnectError::Address { address, scheme }),
        }
        let connections = Connections::default();
        let (opener, tls) = (self.opener.clone(), self.tls.clone());
        let dialing = Dialing { opener, tls, connections: connections.clone(), silent: Arc::default() };
        let endpoint = if self.asks_for_life {
            let asks = endpoint.http2_keep_alive_interval(PEER_KEEPALIVE_INTERVAL);
            asks.keep_alive_timeout(PEER_KEEPALIVE_TIMEOUT).keep_alive_while_idle(true)
        } else {
            endpoint
        };
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            // An answer that comes for a call which was given up counts as the peer's fault, and a connection has the calls of
            // all clients: there is no number of those who leave that should end it.
            .http2_max_local_error_reset_streams(None)
            .buffer_size(CHANNEL_QUEUE_MAX)
            .connect_with_connector_lazy(service_fn(move |uri| dialing.clone().connect(uri)));
        Ok(Line { channel, connections })
    }
}

/// A connection in which small writes leave together, before they are encrypted.
type Connection = TokioIo<Counted<Coalesced<Either<Wire, Encrypted>>>>;

/// What connects a channel, each time that it has to be.
#[derive(Clone)]
struct Dialing {
    opener: Opener,
    tls: Option<ClientTls>,
    connections: Connections,
    /// When no answer came last.
    silent: Arc<Mutex<Option<Instant>>>,
}

impl Dialing {
    async fn connect(self, uri: Uri) -> io::Result<Connection> {
        if self.silent.lock().is_some_and(|at| at.elapsed() < FAILURE_KEPT) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer came to who asked just before"));
        }
        let silent = Arc::clone(&self.silent);
        self.dial(uri).await.inspect_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                *silent.lock() = Some(Instant::now());
            }
        })
    }

    async fn dial(self, uri: Uri) -> io::Result<Connection> {
        let host = uri.host().unwrap_or_default();
        let usual = if self.tls.is_some() { 443 } else { 80 };
        let wire = self.opener.open(host, uri.port_u16().unwrap_or(usual)).await?;
        let stream = match self.tls {
            None => Either::Left(wire),
            Some(tls) => Either::Right(tls.connect(host, wire).await?),
        };
        Ok(TokioIo::new(self.connections.count(Coalesced::new(stream))))
    }
}

/// A channel in the clear, as [`Dialer::channel`] makes it.
///
/// # Errors
/// As [`Dialer::channel`].
pub fn channel(address: &str) -> Result<Channel, ConnectError> {
    Dialer::default().channel(address)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::future::join_all;
    use tokio::net::TcpListener;
    use tonic::transport::Server;
    use tonic::transport::server::TcpIncoming;
    use tonic_health::ServingStatus;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_health::server::HealthReporter;

    use super::*;
    use crate::testing::Full;

    #[tokio::test]
    async fn calls_that_wait_for_one_that_never_answers_do_not_wait_one_after_the_other() {
        let full = Full::new().await;
        let channel = channel(&format!("http://{}", full.address)).unwrap();
        let ask = |_| {
            let mut health = HealthClient::new(channel.clone());
            async move { health.check(HealthCheckRequest::default()).await.unwrap_err() }
        };
        let begun = Instant::now();
        join_all((0..20).map(ask)).await;
        let took = begun.elapsed();
        assert!(took < CONNECT_TIMEOUT, "{took:?}");
        println!("twenty calls to who never answers failed within {took:?}");
    }

    /// A server of nothing but health, and who sets it.
    async fn health() -> (String, HealthReporter) {
        let (reporter, service) = tonic_health::server::health_reporter();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener)));
        (url, reporter)
    }

    #[tokio::test]
    async fn a_connection_outlives_thousands_of_calls_that_are_given_up_while_they_are_answered() {
        const AT_ONCE: usize = 500;
        const GIVEN_UP: usize = 4000;
        let (url, reporter) = health().await;
        let health = HealthClient::new(channel(&url).unwrap());
        let watch = || async {
            let mut told = health.clone().watch(HealthCheckRequest::default()).await.unwrap().into_inner();
            told.message().await.unwrap().unwrap();
            told
        };
        let mut stays = watch().await;
        for turn in 0..GIVEN_UP / AT_ONCE {
            let given_up = join_all((0..AT_ONCE).map(|_| watch())).await;
            let status = if turn.is_multiple_of(2) { ServingStatus::NotServing } else { ServingStatus::Serving };
            reporter.set_service_status("", status).await;
            // What each of them is told comes for a call that is no more.
            drop(given_up);
            stays.message().await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn takes_an_address_where_nobody_listens_yet() {
        assert!(channel("http://127.0.0.1:1").is_ok());
    }

    #[tokio::test]
    async fn refuses_what_is_no_address_and_quotes_it() {
        for address in ["", "127.0.0.1:50051", "ftp://host:1", "http://", "/path", "http://a b"] {
            let refusal = channel(address).expect_err(address);
            assert!(refusal.to_string().contains(&format!("`{address}`")));
        }
    }
}
