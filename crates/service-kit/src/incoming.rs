//! The connections that a server takes: so many at once, and none that has nothing to say.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tonic::transport::server::Connected;
use tonic::{Request, Status};

use crate::tls::ServerTls;
use crate::wire::{Arrivals, Taken, Wire};

/// Connections at once, where the system allows as many files.
const CONNECTIONS_MAX: usize = 8192;

/// A connection that has not said a word for so long is closed.
const FIRST_WORD_MAX: Duration = Duration::from_secs(5);

/// The pause after a connection that could not be taken, for want of files, say: until then nothing has changed.
const PAUSE: Duration = Duration::from_millis(100);

/// What a server takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Connections at once; further ones wait to be taken.
    pub(crate) connections: usize,
    /// How long a new one may be silent.
    pub(crate) first_word: Duration,
}

impl Bounds {
    /// As many connections as are sensible, but no more than half of the files that the system lets this process open, of
    /// which it takes as many as it is given.
    pub(crate) fn of_system() -> Self {
        let files = rlimit::increase_nofile_limit(2 * CONNECTIONS_MAX as u64).unwrap_or(1024);
        let connections = usize::try_from(files / 2).unwrap_or(CONNECTIONS_MAX).clamp(1, CONNECTIONS_MAX);
        Self { connections, first_word: FIRST_WORD_MAX }
    }
}

/// The connections that arrive; with certificates those whose handshake is done, while others have theirs.
pub(crate) fn incoming(
    arrivals: Arrivals,
    bounds: Bounds,
    tls: Option<ServerTls>,
) -> impl Stream<Item = io::Result<Connection>> + Send {
    let places = Arc::new(Semaphore::new(bounds.connections));
    let accepted = stream::unfold((arrivals, places), |(mut arrivals, places)| async move {
        // Nobody closes it.
        let place = Arc::clone(&places).acquire_owned().await.ok()?;
        Some(((next(&mut arrivals).await?, place), (arrivals, places)))
    });
    let begun = accepted.map(move |(taken, place)| {
        // On a task of its own: signing takes its time, and no other connection's.
        let began = tokio::spawn(begin(taken, tls.clone()));
        async move {
            let begun = began.await.ok()??;
            let first_word = Some(Box::pin(sleep(bounds.first_word)));
            Some(Ok(Connection { begun, first_word, _place: place }))
        }
    });
    begun.buffer_unordered(bounds.connections).filter_map(std::future::ready)
}

/// The next connection that can be had.
async fn next(arrivals: &mut Arrivals) -> Option<Taken> {
    loop {
        match arrivals.next().await? {
            Ok(taken) => return Some(taken),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                sleep(PAUSE).await;
            }
        }
    }
}

/// A connection that can be used.
struct Begun {
    /// Encrypted where there are certificates.
    stream: Either<Wire, TlsStream<Wire>>,
    caller: Caller,
}

/// Has the handshake, where there is one.
async fn begin(Taken { wire, caller: address }: Taken, tls: Option<ServerTls>) -> Option<Begun> {
    let Some(tls) = tls else {
        return Some(Begun { stream: Either::Left(wire), caller: Caller { address, admitted: true } });
    };
    match tls.accept(wire).await {
        Ok((stream, admitted)) => Some(Begun { stream: Either::Right(stream), caller: Caller { address, admitted } }),
        Err(error) => {
            tracing::debug!(%error, "a handshake failed");
            None
        }
    }
}

/// A connection, and its place among those that there may be.
pub(crate) struct Connection {
    begun: Begun,
    /// When it is closed unless it has said something; none once it has.
    first_word: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("caller", &self.begun.caller).finish_non_exhaustive()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.begun.stream).poll_read(cx, into) {
            self.first_word = None;
            return Poll::Ready(read);
        }
        let Some(first_word) = &mut self.first_word else { return Poll::Pending };
        ready!(first_word.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the connection said nothing")))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.begun.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.begun.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.begun.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.begun.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.begun.stream).poll_shutdown(cx)
    }
}

/// The address that a call comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerAddress(pub SocketAddr);

/// Who has opened a connection, for each of its calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    address: SocketAddr,
    /// Whether it is answered.
    admitted: bool,
}

impl Caller {
    /// Lets those calls in whose connection is answered, with the [`CallerAddress`] that they come from.
    pub(crate) fn admit(mut request: Request<()>) -> Result<Request<()>, Status> {
        let Some(Self { address, admitted }) = request.extensions_mut().remove::<Self>() else {
            return Err(Status::internal("it is not known who calls"));
        };
        if !admitted {
            return Err(Status::permission_denied(
                "this service does not answer those whose certificate has your name",
            ));
        }
        request.extensions_mut().insert(CallerAddress(address));
        Ok(request)
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.begun.caller.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::Ipv4Addr;

    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::wire::tcp_arrivals;

    const BOUNDS: Bounds = Bounds { connections: 2, first_word: Duration::from_millis(50) };

    async fn listening() -> (impl Stream<Item = io::Result<Connection>>, impl AsyncFn() -> TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        (incoming(tcp_arrivals(listener), BOUNDS, None), async move || TcpStream::connect(address).await.unwrap())
    }

    #[tokio::test]
    async fn beyond_the_limit_a_connection_waits_until_another_is_closed() {
        let (taken, connect) = listening().await;
        let mut taken = Box::pin(taken);
        let _clients = [connect().await, connect().await, connect().await];
        let first = taken.next().await.unwrap().unwrap();
        let _second = taken.next().await.unwrap().unwrap();
        assert!(taken.next().now_or_never().is_none());
        drop(first);
        assert!(taken.next().await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn who_says_nothing_is_closed_and_who_has_spoken_is_not() {
        let (taken, connect) = listening().await;
        let mut taken = Box::pin(taken);
        let (_silent, mut speaking) = (connect().await, connect().await);
        let mut silent = taken.next().await.unwrap().unwrap();
        assert_eq!(silent.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut spoken = taken.next().await.unwrap().unwrap();
        speaking.write_u8(1).await.unwrap();
        assert_eq!(spoken.read_u8().await.unwrap(), 1);
        let longer = tokio::time::timeout(4 * BOUNDS.first_word, spoken.read_u8()).await;
        assert!(longer.is_err(), "it was closed: {longer:?}");
    }

    #[test]
    fn there_are_files_for_all_connections() {
        let Bounds { connections, .. } = Bounds::of_system();
        assert!((1..=CONNECTIONS_MAX).contains(&connections));
        let (soft, _) = rlimit::Resource::NOFILE.get().unwrap();
        assert!(2 * connections as u64 <= soft);
    }
}
