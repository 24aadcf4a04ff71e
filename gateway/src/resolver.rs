//! From a name to the addresses that it stands for at present.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::address::ServiceName;

/// How often a name is looked up.
const INTERVAL: Duration = Duration::from_secs(5);

/// A name that is not found within this time is tried again later.
const LOOKUP_MAX: Duration = Duration::from_secs(3);

type Found = BoxFuture<'static, io::Result<Vec<SocketAddr>>>;

/// How names become addresses, and how often they are looked up.
#[derive(Clone)]
pub struct Resolver {
    look_up: Arc<dyn Fn(String, u16) -> Found + Send + Sync>,
    pub(crate) interval: Duration,
}

impl Resolver {
    /// Looks names up as the system does, every five seconds.
    pub fn system() -> Self {
        Self::new(INTERVAL, |host, port| async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }

    /// Has `look_up` say, about once in an `interval`, for which addresses a host with a port stands.
    pub fn new<F>(interval: Duration, look_up: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        Self { look_up: Arc::new(move |host, port| look_up(host, port).boxed()), interval }
    }

    pub(crate) async fn resolve(&self, name: &ServiceName) -> io::Result<Vec<SocketAddr>> {
        let found = (self.look_up)(name.host.clone(), name.port);
        tokio::time::timeout(LOOKUP_MAX, found).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("interval", &self.interval).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_service_kit::Dialer;

    use super::*;

    #[tokio::test]
    async fn the_system_knows_the_addresses_of_this_machine() {
        let name = ServiceName { host: "localhost".to_owned(), port: 50052, dialer: Dialer::default() };
        let found = Resolver::system().resolve(&name).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 50052), "{found:?}");
        assert!(!found.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_that_hangs_is_given_up() {
        let hangs = Resolver::new(INTERVAL, |_, _| std::future::pending());
        let name = ServiceName { host: "slow".to_owned(), port: 1, dialer: Dialer::default() };
        assert_eq!(hangs.resolve(&name).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
