//! Who asks, as far as fairness goes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use espalier_proto::{CLIENT_NAME_BYTES_MAX, CLIENT_NAME_KEY, is_client_name};
use thiserror::Error;
use tonic::metadata::MetadataMap;

/// The name of a client is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the client's name in {CLIENT_NAME_KEY} has {bytes} bytes; it must be 1 to {CLIENT_NAME_BYTES_MAX} printable ASCII characters"
)]
pub struct ClientNameError {
    /// Its length.
    pub bytes: usize,
}

/// Who shares slots with others: whoever goes by one name, or nameless asks from one host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// It said who it is.
    Named(Box<str>),
    /// Ports do not count: connections cost nothing.
    At(IpAddr),
    /// Nothing is known; all of these are one.
    Unknown,
}

impl Client {
    /// Who sends a request with this metadata from `peer`.
    ///
    /// # Errors
    /// A name that is too long, empty, or not printable.
    pub(crate) fn of(metadata: &MetadataMap, peer: Option<SocketAddr>) -> Result<Self, ClientNameError> {
        let Some(name) = metadata.get(CLIENT_NAME_KEY) else {
            return Ok(peer.map_or(Self::Unknown, |peer| Self::At(peer.ip().to_canonical())));
        };
        let bytes = name.len();
        let name = name.to_str().ok().filter(|name| is_client_name(name));
        name.map(|name| Self::Named(name.into())).ok_or(ClientNameError { bytes })
    }
}

/// Who asks for a slot, and on which terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who it is.
    pub client: Client,
    /// How many slots in a row it is given while others wait.
    pub weight: usize,
    /// Requests that it may have, served or waiting.
    pub requests_max: usize,
}

/// How many slots in a row clients are given, by name; 1 unless said otherwise.
#[derive(Debug, Clone, Default)]
pub struct ClientWeights(BTreeMap<Box<str>, usize>);

impl ClientWeights {
    pub(crate) fn of(&self, client: &Client) -> usize {
        match client {
            Client::Named(name) => self.0.get(name).copied().unwrap_or(1),
            Client::At(_) | Client::Unknown => 1,
        }
    }
}

impl FromIterator<(String, usize)> for ClientWeights {
    fn from_iter<I: IntoIterator<Item = (String, usize)>>(weights: I) -> Self {
        Self(weights.into_iter().map(|(name, weight)| (name.into(), weight)).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn named(name: &str) -> Result<Client, ClientNameError> {
        let mut metadata = MetadataMap::new();
        metadata.insert(CLIENT_NAME_KEY, name.parse().unwrap());
        Client::of(&metadata, None)
    }

    #[test]
    fn a_client_is_a_name_or_a_host() {
        assert_eq!(named("team a/7"), Ok(Client::Named("team a/7".into())));
        let from = |peer: &str| Client::of(&MetadataMap::new(), Some(peer.parse().unwrap())).unwrap();
        assert_eq!(from("10.0.0.1:5"), from("[::ffff:10.0.0.1]:6"));
        assert_ne!(from("10.0.0.1:5"), from("10.0.0.2:5"));
        assert_eq!(Client::of(&MetadataMap::new(), None), Ok(Client::Unknown));
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_its_length() {
        for (name, bytes) in [("", 0), (&"x".repeat(65), 65), ("a\tb", 3)] {
            assert_eq!(named(name), Err(ClientNameError { bytes }));
        }
        let words = named("").unwrap_err().to_string();
        let expected =
            "the client's name in x-espalier-client has 0 bytes; it must be 1 to 64 printable ASCII characters";
        assert_eq!(words, expected);
    }

    #[test]
    fn only_names_have_weights() {
        let weights: ClientWeights = [("a".to_owned(), 3)].into_iter().collect();
        assert_eq!(weights.of(&Client::Named("a".into())), 3);
        assert_eq!([Client::Named("b".into()), Client::Unknown].map(|client| weights.of(&client)), [1, 1]);
    }
}
