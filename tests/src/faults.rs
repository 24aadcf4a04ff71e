//! Connections that can be cut, held up, slowed down and garbled.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use espalier_local::ANY_PORT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// Most bytes that are passed on at once.
const PASSED_AT_ONCE: usize = 16 << 10;

/// What is changed of a byte: high and low bits, of numbers and of letters.
const GARBLED_BITS: u8 = 0b0101_0101;

/// A TCP proxy in front of a service. Dropping or cutting it is, for its clients, the death of the service; resetting
/// it, its restart; stalling it, that it is stopped and holds its connections.
pub struct Proxy {
    url: String,
    upstream: watch::Sender<SocketAddr>,
    trouble: watch::Sender<Trouble>,
    forwarding: JoinHandle<()>,
    reset: Arc<Notify>,
    accepted: Arc<AtomicUsize>,
    garbled: Arc<AtomicUsize>,
}

impl Proxy {
    /// Forwards connections to `upstream`.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(ANY_PORT).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let reset = Arc::new(Notify::new());
        let (accepted, garbled) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let (trouble, troubled) = watch::channel(Trouble::None);
        let (upstream, to) = watch::channel(upstream);
        let to = To { upstream: to, trouble: troubled, garbled: garbled.clone() };
        let forwarding = tokio::spawn(forward(listener, to, reset.clone(), accepted.clone()));
        Self { url, upstream, trouble, forwarding, reset, accepted, garbled }
    }

    /// Where the service seems to be.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Connections so far: who uses the service, beside those who only ask what it is.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Closes all connections and takes new ones.
    pub fn reset(&self) {
        self.reset.notify_one();
    }

    /// Closes all connections; new ones are another service's.
    pub fn move_to(&self, upstream: SocketAddr) {
        self.upstream.send_replace(upstream);
        self.reset();
    }

    /// Forwards nothing any more, and keeps all connections.
    pub fn stall(&self) {
        self.trouble.send_replace(Trouble::Stalled);
    }

    /// Forwards all that comes, later by `by`, in both directions.
    pub fn slow(&self, by: Duration) {
        self.trouble.send_replace(Trouble::Slow(by));
    }

    /// Changes one byte of every `one_of` of a connection, in both directions.
    pub fn garble(&self, one_of: usize) {
        self.trouble.send_replace(Trouble::Garbled(one_of));
    }

    /// Bytes that were changed so far.
    pub fn garbled(&self) -> usize {
        self.garbled.load(Ordering::SeqCst)
    }

    /// Forwards all that comes as it is, once more; connections that were stalled are lost.
    pub fn mend(&self) {
        self.trouble.send_replace(Trouble::None);
    }

    /// Closes all connections and takes no more.
    pub async fn cut(mut self) {
        self.forwarding.abort();
        // Cancelled, which is what was asked for.
        let _ = (&mut self.forwarding).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.forwarding.abort();
    }
}

/// What happens to bytes between a client and a service.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// Nothing is forwarded.
    Stalled,
    /// All comes later by this much.
    Slow(Duration),
    /// One byte of so many is another.
    Garbled(usize),
}

/// Where to, and what happens on the way.
#[derive(Clone)]
struct To {
    upstream: watch::Receiver<SocketAddr>,
    trouble: watch::Receiver<Trouble>,
    garbled: Arc<AtomicUsize>,
}

async fn forward(listener: TcpListener, to: To, reset: Arc<Notify>, count: Arc<AtomicUsize>) {
    // Connections end with this set.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = reset.notified() => connections.abort_all(),
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { return };
                count.fetch_add(1, Ordering::SeqCst);
                connections.spawn(pipe(client, to.clone()));
            }
        }
    }
}

async fn pipe(client: TcpStream, to: To) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let upstream = *to.upstream.borrow();
    let service = TcpStream::connect(upstream).await?;
    service.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_service, to_service) = service.into_split();
    tokio::try_join!(to.pass(from_client, to_service), to.pass(from_service, to_client))?;
    Ok(())
}

impl To {
    /// Passes on what comes until nothing more does.
    async fn pass(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> std::io::Result<()> {
        let mut bytes = vec![0; PASSED_AT_ONCE];
        let mut passed_before = 0;
        loop {
            let read = from.read(&mut bytes).await;
            let trouble = *self.trouble.borrow();
            if trouble == Trouble::Stalled {
                // The connection is lost, whatever comes later, and nobody hears that the other end has closed it.
                std::future::pending::<()>().await;
            }
            let read = read?;
            if read == 0 {
                return to.shutdown().await;
            }
            let passed = &mut bytes[..read];
            match trouble {
                Trouble::None | Trouble::Stalled => (),
                Trouble::Slow(by) => sleep(by).await,
                Trouble::Garbled(one_of) => self.garble(passed, passed_before, one_of),
            }
            to.write_all(passed).await?;
            passed_before += read;
        }
    }

    /// Changes those of a connection's bytes whose turn it is, of which `before` have passed.
    fn garble(&self, bytes: &mut [u8], before: usize, one_of: usize) {
        for byte in bytes.iter_mut().skip(one_of - 1 - before % one_of).step_by(one_of) {
            *byte ^= GARBLED_BITS;
            self.garbled.fetch_add(1, Ordering::SeqCst);
        }
    }
}
