//! Connections whose small writes leave together.
//!
//! After a pass a verifier has a message for each of its sequences. Each is put on its stream by a task of its own, and
//! HTTP/2 writes it to the connection at once: a system call for each message, which costs as much time as all else that
//! is done for it. So a flush lets those tasks have their turn first that are ready to run, and what they had to say
//! leaves together.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// Bytes that wait at the most: what is beyond is written at once.
const COALESCED_MAX: usize = 16 * 1024;

/// A connection whose flushes wait for one turn of the tasks that are ready to run.
#[derive(Debug)]
pub(crate) struct Coalesced<C> {
    connection: C,
    /// What was written and has not left yet.
    waiting: Vec<u8>,
    /// Of that, bytes that have left.
    written: usize,
    /// Whether others have had their turn since the present flush began.
    yielded: bool,
}

impl<C: AsyncWrite + Unpin> Coalesced<C> {
    pub(crate) fn new(connection: C) -> Self {
        Self { connection, waiting: Vec::new(), written: 0, yielded: false }
    }

    /// Writes what is waiting.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.waiting.len() {
            match ready!(Pin::new(&mut self.connection).poll_write(cx, &self.waiting[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        self.waiting.clear();
        (self.written, self.yielded) = (0, false);
        Poll::Ready(Ok(()))
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Coalesced<C> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if self.waiting.len() + bytes > COALESCED_MAX {
            ready!(self.poll_drain(cx))?;
            if bytes > COALESCED_MAX {
                return Pin::new(&mut self.connection).poll_write_vectored(cx, slices);
            }
        }
        slices.iter().for_each(|slice| self.waiting.extend_from_slice(slice));
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.waiting.is_empty() && !std::mem::replace(&mut self.yielded, true) {
            // The runtime puts a task that wakes itself behind all that are ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Coalesced<C> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(cx, into)
    }
}

impl<C: Connected> Connected for Coalesced<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.connection.connect_info()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::task::Waker;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Keeps what it is given, a write at a time, and takes at most so many bytes of each.
    struct Noting {
        writes: Vec<Vec<u8>>,
        takes: usize,
    }

    impl AsyncWrite for Noting {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let taken = &bytes[..bytes.len().min(self.takes)];
            self.writes.push(taken.to_vec());
            Poll::Ready(Ok(taken.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn noting(takes: usize) -> Coalesced<Noting> {
        Coalesced::new(Noting { writes: Vec::new(), takes })
    }

    fn write(to: &mut Coalesced<Noting>, bytes: &[u8]) {
        let written = Pin::new(to).poll_write(&mut Context::from_waker(Waker::noop()), bytes);
        assert_eq!(written.map(Result::unwrap), Poll::Ready(bytes.len()));
    }

    fn flush(to: &mut Coalesced<Noting>) -> bool {
        Pin::new(to).poll_flush(&mut Context::from_waker(Waker::noop())).map(Result::unwrap).is_ready()
    }

    #[test]
    fn what_is_written_while_a_flush_waits_for_its_turn_leaves_with_it() {
        let mut coalesced = noting(usize::MAX);
        for round in 1..=2 {
            write(&mut coalesced, b"one ");
            assert!(!flush(&mut coalesced), "others come first");
            write(&mut coalesced, b"two");
            assert!(flush(&mut coalesced));
            assert_eq!(coalesced.connection.writes, vec![b"one two".to_vec(); round]);
        }
        assert!(flush(&mut coalesced), "nothing is waiting, so nobody waits");
    }

    #[test]
    fn no_more_than_the_limit_waits_and_what_is_larger_is_not_copied() {
        let mut coalesced = noting(usize::MAX);
        write(&mut coalesced, &[1; COALESCED_MAX - 1]);
        write(&mut coalesced, &[2; 2]);
        write(&mut coalesced, &[3; COALESCED_MAX + 1]);
        let lengths: Vec<usize> = coalesced.connection.writes.iter().map(Vec::len).collect();
        assert_eq!(lengths, [COALESCED_MAX - 1, 2, COALESCED_MAX + 1]);
    }

    #[tokio::test]
    async fn a_connection_that_takes_little_at_a_time_gets_all_in_order() {
        let mut coalesced = noting(3);
        coalesced.write_all(b"a sentence").await.unwrap();
        coalesced.shutdown().await.unwrap();
        assert_eq!(coalesced.connection.writes.concat(), b"a sentence");
    }

    #[tokio::test]
    async fn both_ends_of_a_connection_may_coalesce() {
        let (near, far) = tokio::io::duplex(8);
        let (mut near, mut far) = (Coalesced::new(near), Coalesced::new(far));
        let told = vec![7; 3 * COALESCED_MAX];
        let tell = async {
            near.write_all(&told).await.unwrap();
            near.flush().await.unwrap();
            drop(near);
        };
        let mut heard = Vec::new();
        let (_, read) = tokio::join!(tell, far.read_to_end(&mut heard));
        assert_eq!((read.unwrap(), heard), (told.len(), told.clone()));
    }
}
