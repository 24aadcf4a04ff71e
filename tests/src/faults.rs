//! Connections that can be cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use espalier_local::ANY_PORT;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

/// A TCP proxy in front of a service. Dropping or cutting it is, for its clients, the death of the service; resetting
/// it, its restart; stalling it, that it is stopped and holds its connections.
pub struct Proxy {
    url: String,
    upstream: watch::Sender<SocketAddr>,
    stalled: watch::Sender<bool>,
    forwarding: JoinHandle<()>,
    reset: Arc<Notify>,
    accepted: Arc<AtomicUsize>,
}

impl Proxy {
    /// Forwards connections to `upstream`.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(ANY_PORT).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let reset = Arc::new(Notify::new());
        let accepted = Arc::new(AtomicUsize::new(0));
        let (stalled, stalls) = watch::channel(false);
        let (upstream, to) = watch::channel(upstream);
        let to = To { upstream: to, stalls };
        let forwarding = tokio::spawn(forward(listener, to, reset.clone(), accepted.clone()));
        Self { url, upstream, stalled, forwarding, reset, accepted }
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
        self.stalled.send_replace(true);
    }

    /// Forwards what comes on new connections again; those that were stalled are lost.
    pub fn unstall(&self) {
        self.stalled.send_replace(false);
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

/// Where to, and whether anything is to be forwarded.
#[derive(Clone)]
struct To {
    upstream: watch::Receiver<SocketAddr>,
    stalls: watch::Receiver<bool>,
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

async fn pipe(mut client: TcpStream, To { upstream, mut stalls }: To) -> std::io::Result<(u64, u64)> {
    client.set_nodelay(true)?;
    let to = *upstream.borrow();
    let mut service = TcpStream::connect(to).await?;
    service.set_nodelay(true)?;
    let stalled = async {
        // Who tells is there as long as there are connections.
        drop(stalls.wait_for(|stalled| *stalled).await);
    };
    tokio::select! {
        copied = copy_bidirectional(&mut client, &mut service) => copied,
        () = stalled => std::future::pending().await,
    }
}
