//! Ways to a host: it may have several addresses, of which some swallow whatever is sent to them.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// A machine that answers nothing for so long is not there. It answers by itself, whatever its programs do.
const ANSWER_MAX: Duration = Duration::from_millis(700);

/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 16;

/// A connection to whichever address of a host takes one first: all are tried side by side, so that those that never
/// answer hold nobody up.
pub(crate) async fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
    // An IPv6 address stands in brackets.
    let host = host.trim_matches(['[', ']']);
    first_of(lookup_host((host, port)).await?.take(ADDRESSES_MAX)).await
}

/// What comes of something that a peer has to answer at once, or that it did not.
pub(crate) async fn answered<T>(what: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let silent = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer came within {ANSWER_MAX:?}"));
    timeout(ANSWER_MAX, what).await.map_err(|_| silent())?
}

/// Asks an address for a connection, and once more when half of the time is over: what was lost on the way, the system
/// sends again only after a second.
async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let mut first = pin!(TcpStream::connect(address));
    match timeout(ANSWER_MAX / 2, &mut first).await {
        Ok(answer) => answer,
        Err(_) => tokio::select! {
            answer = first => answer,
            answer = TcpStream::connect(address) => answer,
        },
    }
}

async fn first_of(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut trying: FuturesUnordered<_> = addresses.map(dial).map(answered).collect();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    while let Some(tried) = trying.next().await {
        match tried {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Instant;

    use tokio::net::TcpListener;

    use super::*;
    use crate::testing::Full;

    #[tokio::test]
    async fn addresses_that_swallow_what_is_sent_to_them_do_not_hold_up_the_one_that_answers() {
        let holes = [Full::new().await, Full::new().await, Full::new().await];
        let good = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let gone = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let silent = holes.iter().map(|hole| hole.address);
        let addresses: Vec<_> = silent.chain([gone, good.local_addr().unwrap()]).collect();
        let begun = Instant::now();
        let reached = first_of(addresses.iter().copied()).await.unwrap();
        assert_eq!((reached.peer_addr().ok(), reached.nodelay().ok()), (good.local_addr().ok(), Some(true)));
        assert!(begun.elapsed() < ANSWER_MAX, "{:?}", begun.elapsed());
        let error = first_of(addresses.iter().copied().take(4)).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer came within 700ms");
    }

    #[tokio::test]
    async fn a_host_is_a_name_or_an_address_of_either_kind() {
        let four = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        for host in ["localhost", "127.0.0.1"] {
            assert!(reach(host, four.local_addr().unwrap().port()).await.is_ok(), "{host}");
        }
        if let Ok(six) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await {
            assert!(reach("[::1]", six.local_addr().unwrap().port()).await.is_ok());
        }
        assert!(first_of(std::iter::empty()).await.is_err());
    }
}
