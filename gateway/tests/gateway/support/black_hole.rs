//! Addresses where nothing ever answers.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::target::ANY_PORT;

/// An address that answers nothing, for as long as it lives.
pub struct BlackHole {
    pub url: String,
    _listener: TcpListener,
    /// Connections that take all the room there is.
    _filling: Vec<TcpStream>,
}

impl BlackHole {
    /// Connections are made, as the system does that by itself, and nobody reads from them.
    pub async fn silent() -> Self {
        Self::new(TcpListener::bind(ANY_PORT).await.unwrap(), vec![])
    }

    /// Whoever wants a connection is not even refused, as where a machine is cut off.
    pub async fn swallowing() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(ANY_PORT).unwrap();
        let listener = socket.listen(0).unwrap();
        let only = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        Self::new(listener, vec![only])
    }

    fn new(listener: TcpListener, filling: Vec<TcpStream>) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { url, _listener: listener, _filling: filling }
    }

    pub fn address(&self) -> SocketAddr {
        self.url.strip_prefix("http://").unwrap().parse().unwrap()
    }
}
