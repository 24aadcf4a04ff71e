//! What tests of servers serve, and what tests of connections meet.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};

use http::{Request, Response};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

/// A service that answers every call with nothing.
#[derive(Clone)]
pub(crate) struct Nothing;

impl NamedService for Nothing {
    const NAME: &'static str = "test.Nothing";
}

impl Service<Request<Body>> for Nothing {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Ok(Response::new(Body::empty())))
    }
}

/// An address that swallows what is sent to it, for as long as this lives: it has room for one connection, and has that.
pub(crate) struct Full {
    pub(crate) address: SocketAddr,
    _listener: TcpListener,
    _only: TcpStream,
}

impl Full {
    #[allow(clippy::unwrap_used)]
    pub(crate) async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, _listener: listener, _only: TcpStream::connect(address).await.unwrap() }
    }
}
