//! Whether a channel is connected: it connects again by itself, and tells nobody.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// The connections of a channel: one, or none. Clones are of the same channel.
#[derive(Debug, Clone, Default)]
pub struct Connections(Arc<watch::Sender<usize>>);

impl Connections {
    /// Ready when there is none.
    pub async fn until_none(&self) {
        // Who tells is here.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }

    /// A connection that counts as long as it lives.
    pub(crate) fn count<C>(&self, connection: C) -> Counted<C> {
        self.0.send_modify(|count| *count += 1);
        Counted { connection, _open: Open(self.clone()) }
    }
}

/// A connection that is counted.
#[derive(Debug)]
pub(crate) struct Counted<C> {
    connection: C,
    _open: Open,
}

#[derive(Debug)]
struct Open(Connections);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Counted<C> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(cx, into)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Counted<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn it_is_told_when_the_last_connection_has_ended() {
        let connections = Connections::default();
        assert!(connections.until_none().now_or_never().is_some());
        let (one, other) = (connections.count(duplex(1)), connections.clone().count(duplex(1)));
        drop(one);
        let mut none = connections.until_none().boxed();
        assert!((&mut none).now_or_never().is_none());
        drop(other);
        none.await;
    }
}
