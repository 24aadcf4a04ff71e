//! Channels to other services.

use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tonic::transport::{Channel, Endpoint};
use tower::ServiceExt;

use crate::coalesce::Coalesced;

/// A connection that cannot be made within this time counts as refused.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A peer is asked for a sign of life after so much silence.
const PEER_KEEPALIVE_INTERVAL: Duration = Duration::from_millis(200);

/// A peer that owes a sign of life for so long is gone. What answers does nothing else, so a service whose model is slow
/// is in time; one that is stopped, or cut off, is not.
const PEER_KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(500);

/// Requests that may wait inside one channel for their turn.
const CHANNEL_QUEUE_MAX: usize = 1024;

/// An address that no channel can be made for.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The text is no `http://host:port`.
    #[error("`{address}` is not an address of the form http://host:port")]
    Address {
        /// The text as it was given.
        address: String,
    },
}

/// A channel to `address` (`http://host:port`) that connects when it is first
/// used, notices a dead peer within a second, and connects again by itself.
///
/// # Errors
/// [`ConnectError::Address`] if the text is no such address; an address where
/// nobody listens only shows when the channel is used.
pub fn channel(address: &str) -> Result<Channel, ConnectError> {
    let unusable = || ConnectError::Address { address: address.to_owned() };
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|_| unusable())?;
    if endpoint.uri().scheme_str() != Some("http") || endpoint.uri().host().is_none() {
        return Err(unusable());
    }
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PEER_KEEPALIVE_INTERVAL)
        .keep_alive_timeout(PEER_KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .buffer_size(CHANNEL_QUEUE_MAX)
        .connect_with_connector_lazy(
            connector.map_response(|connected| TokioIo::new(Coalesced::new(connected.into_inner()))),
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn takes_an_address_where_nobody_listens_yet() {
        assert!(channel("http://127.0.0.1:1").is_ok());
    }

    #[tokio::test]
    async fn refuses_what_is_no_address_and_quotes_it() {
        for address in ["", "127.0.0.1:50051", "ftp://host:1", "http://", "/path", "http://a b"] {
            let refusal = channel(address).expect_err(address);
            assert!(refusal.to_string().contains(&format!("`{address}`")));
        }
    }
}
