//! Connections that can be cut.

use std::net::SocketAddr;

use espalier_local::ANY_PORT;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A TCP proxy in front of a service. Dropping or cutting it is, for its clients, the death of the service.
pub struct Proxy {
    url: String,
    forwarding: JoinHandle<()>,
}

impl Proxy {
    /// Forwards connections to `upstream`.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(ANY_PORT).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { url, forwarding: tokio::spawn(forward(listener, upstream)) }
    }

    /// Where the service seems to be.
    pub fn url(&self) -> &str {
        &self.url
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

async fn forward(listener: TcpListener, upstream: SocketAddr) {
    // Connections end with this set.
    let mut connections = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        connections.spawn(async move {
            client.set_nodelay(true)?;
            let mut service = TcpStream::connect(upstream).await?;
            service.set_nodelay(true)?;
            copy_bidirectional(&mut client, &mut service).await
        });
    }
}
