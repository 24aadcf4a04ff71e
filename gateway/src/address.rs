//! Where services are: addresses, and names that stand for as many addresses as a resolver knows.

use espalier_service_kit::{ConnectError, channel};
use thiserror::Error;
use tonic::transport::{Channel, Uri};

/// What the address of a name begins with.
const BY_NAME: &str = "dns+";

/// Why a text says of no service where it is.
#[derive(Debug, Error)]
pub enum AddressError {
    /// It is no `http://host:port`.
    #[error(transparent)]
    Address(#[from] ConnectError),
    /// It is no `dns+http://name:port`.
    #[error("`{found}` is not an address of the form dns+http://name:port")]
    Name {
        /// The text as it was given.
        found: String,
    },
}

/// Where a service is, and the way there.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) channel: Channel,
}

impl Address {
    /// Reads `http://host:port`. Must be called within a tokio runtime.
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        Ok(Self { url: url.to_owned(), channel: channel(url)? })
    }
}

/// A name with an address for each service of a kind, as headless services have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceName {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// What a person may say of where services are.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    /// One service.
    At(Address),
    /// Those that a name stands for at present.
    Named(ServiceName),
}

impl Location {
    /// Reads `http://host:port` or `dns+http://name:port`.
    pub(crate) fn parse(text: &str) -> Result<Self, AddressError> {
        match text.strip_prefix(BY_NAME) {
            None => Ok(Self::At(Address::parse(text)?)),
            Some(url) => {
                let named = service_name(url).map(Self::Named);
                named.ok_or_else(|| AddressError::Name { found: text.to_owned() })
            }
        }
    }
}

fn service_name(url: &str) -> Option<ServiceName> {
    let uri: Uri = url.parse().ok()?;
    let bare = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none();
    let (host, port) = (uri.host().filter(|host| !host.is_empty())?, uri.port_u16()?);
    bare.then(|| ServiceName { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn an_address_is_one_service_and_a_name_stands_for_several() {
        let Location::At(address) = Location::parse("http://10.0.0.1:50052").unwrap() else { panic!("a name") };
        assert_eq!(address.url, "http://10.0.0.1:50052");
        let Location::Named(name) = Location::parse("dns+http://verifiers.espalier.svc:50052").unwrap() else {
            panic!("an address")
        };
        assert_eq!(name, ServiceName { host: "verifiers.espalier.svc".to_owned(), port: 50052 });
    }

    #[tokio::test]
    async fn what_is_neither_is_quoted_with_the_form_it_should_have() {
        for (text, form) in [
            ("nowhere", "http://host:port"),
            ("dns+nowhere:1", "dns+http://name:port"),
            ("dns+http://verifiers", "dns+http://name:port"),
            ("dns+https://verifiers:1", "dns+http://name:port"),
            ("dns+http://verifiers:1/path", "dns+http://name:port"),
            ("dns+http://verifiers:70000", "dns+http://name:port"),
        ] {
            let words = format!("`{text}` is not an address of the form {form}");
            assert_eq!(Location::parse(text).unwrap_err().to_string(), words);
        }
    }
}
