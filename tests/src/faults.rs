//! Connections that can be cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use espalier_local::ANY_PORT;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// A TCP proxy in front of a service. Dropping or cutting it is, for its clients, the death of the service; resetting
/// it, its restart.
pub struct Proxy {
    url: String,
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
        let forwarding = tokio::spawn(forward(listener, upstream, reset.clone(), accepted.clone()));
        Self { url, forwarding, reset, accepted }
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

async fn forward(listener: TcpListener, upstream: SocketAddr, reset: Arc<Notify>, count: Arc<AtomicUsize>) {
    // Connections end with this set.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = reset.notified() => connections.abort_all(),
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { return };
                count.fetch_add(1, Ordering::SeqCst);
                connections.spawn(pipe(client, upstream));
            }
        }
    }
}

async fn pipe(mut client: TcpStream, upstream: SocketAddr) -> std::io::Result<(u64, u64)> {
    client.set_nodelay(true)?;
    let mut service = TcpStream::connect(upstream).await?;
    service.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut service).await
}
