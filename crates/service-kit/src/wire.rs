//! What connections are made of: bytes both ways, over TCP or whatever stands in for it.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::reach::reach;

/// A connection in the clear.
pub(crate) type Wire = Box<dyn Duplex>;

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection that was taken, and who has opened it.
pub(crate) struct Taken {
    pub(crate) wire: Wire,
    pub(crate) caller: SocketAddr,
}

/// The connections that a server is to take, one after the other.
pub(crate) type Arrivals = BoxStream<'static, io::Result<Taken>>;

/// Those of a listener.
pub(crate) fn tcp_arrivals(listener: TcpListener) -> Arrivals {
    let accepted = stream::unfold(listener, |listener| async move {
        let taken = listener.accept().await.map(|(stream, caller)| {
            // Without it messages are only later.
            let _ = stream.set_nodelay(true);
            Taken { wire: Box::new(stream), caller }
        });
        Some((taken, listener))
    });
    accepted.boxed()
}

/// How connections to other services are opened.
#[derive(Clone)]
pub(crate) struct Opener(Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Wire>> + Send + Sync>);

impl Opener {
    /// Over TCP.
    pub(crate) fn tcp() -> Self {
        Self::new(|host, port| async move { reach(&host, port).await })
    }

    /// By what opens one to a host and a port.
    pub(crate) fn new<F, D>(open: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<D>> + Send + 'static,
        D: Duplex + 'static,
    {
        Self(Arc::new(move |host, port| {
            let opening = open(host, port);
            async { Ok(Box::new(opening.await?) as Wire) }.boxed()
        }))
    }

    /// A connection to a port of a host.
    pub(crate) fn open(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Wire>> {
        (self.0)(host.to_owned(), port)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").finish_non_exhaustive()
    }
}
