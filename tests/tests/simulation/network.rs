//! The simulated network, and who is on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use espalier_service_kit::{Bound, Dialer};
use futures::stream;
use turmoil::net::{TcpListener, TcpStream};

/// All services listen here, each on a machine of its own.
const PORT: u16 = 50050;

/// The machines with services.
pub(crate) const GATEWAYS: [&str; 2] = ["gateway-0", "gateway-1"];
pub(crate) const DRAFTERS: [&str; 2] = ["drafter-0", "drafter-1"];
pub(crate) const VERIFIERS: [&str; 2] = ["verifier-0", "verifier-1"];

/// The machine with clients.
pub(crate) const CLIENTS: &str = "clients";

/// The name of each machine with a service, by its number.
pub(crate) fn services() -> Vec<&'static str> {
    [GATEWAYS, DRAFTERS, VERIFIERS].concat()
}

/// Where the service of a machine is.
pub(crate) fn url(host: &str) -> String {
    format!("http://{host}:{PORT}")
}

/// Where those of several machines are.
pub(crate) fn urls(hosts: &[&str]) -> Vec<String> {
    hosts.iter().map(|host| url(host)).collect()
}

/// A port of the machine that this is called on.
pub(crate) async fn bind() -> io::Result<Bound> {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    let listener = TcpListener::bind(address).await?;
    let taken = stream::unfold(listener, |listener| async move { Some((listener.accept().await, listener)) });
    Ok(Bound::over(address, taken))
}

/// Connections to whoever is named.
pub(crate) fn dialer() -> Dialer {
    Dialer::over(|host, port| TcpStream::connect((host, port)))
}

/// Connections to the gateways in turns, whoever is named: as by one address for all of them.
pub(crate) fn front() -> Dialer {
    let turn = Arc::new(AtomicUsize::new(0));
    Dialer::over(move |_, port| {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        TcpStream::connect((GATEWAYS[turn % GATEWAYS.len()], port))
    })
}
