//! Where services are: addresses, and names that stand for as many addresses as a resolver knows.

use espalier_service_kit::{ConnectError, Dialer, Line};
use thiserror::Error;
use tonic::transport::Uri;

/// What the address of a name begins with.
const BY_NAME: &str = "dns+";

/// Why a text says of no service where it is.
#[derive(Debug, Error)]
pub enum AddressError {
    /// It is no `http://host:port`.
    #[error(transparent)]
    Address(#[from] ConnectError),
    /// It is no `dns+http://name:port`.
    #[error("`{found}` is not an address of the form dns+{scheme}://name:port")]
    Name {
        /// The text as it was given.
        found: String,
        /// What services are spoken to with.
        scheme: &'static str,
    },
}

/// Where a service is, and the way there.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) line: Line,
}

impl Address {
    /// Reads `http://host:port`, or `https://host:port` under TLS. Must be called within a tokio runtime.
    pub(crate) fn parse(url: &str, dialer: &Dialer) -> Result<Self, ConnectError> {
        Ok(Self { url: url.to_owned(), line: dialer.line(url)? })
    }
}

/// A name with an address for each service of a kind, as headless services have.
#[derive(Debug, Clone)]
pub(crate) struct ServiceName {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// How those at its addresses are connected to.
    pub(crate) dialer: Dialer,
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
    /// Reads `http://host:port` or `dns+http://name:port`; under TLS, with `https`.
    pub(crate) fn parse(text: &str, dialer: &Dialer) -> Result<Self, AddressError> {
        match text.strip_prefix(BY_NAME) {
            None => Ok(Self::At(Address::parse(text, dialer)?)),
            Some(url) => {
                let named = service_name(url, dialer).map(Self::Named);
                named.ok_or_else(|| AddressError::Name { found: text.to_owned(), scheme: dialer.scheme() })
            }
        }
    }
}

fn service_name(url: &str, dialer: &Dialer) -> Option<ServiceName> {
    let uri: Uri = url.parse().ok()?;
    let bare = uri.scheme_str() == Some(dialer.scheme()) && matches!(uri.path(), "" | "/") && uri.query().is_none();
    let (host, port) = (uri.host().filter(|host| !host.is_empty())?, uri.port_u16()?);
    bare.then(|| ServiceName { host: host.to_owned(), port, dialer: dialer.clone() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn an_address_is_one_service_and_a_name_stands_for_several() {
        let parse = |text: &str| Location::parse(text, &Dialer::default()).unwrap();
        let Location::At(address) = parse("http://10.0.0.1:50052") else { panic!("a name") };
        assert_eq!(address.url, "http://10.0.0.1:50052");
        let Location::Named(name) = parse("dns+http://verifiers.espalier.svc:50052") else { panic!("an address") };
        assert_eq!((&*name.host, name.port), ("verifiers.espalier.svc", 50052));
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
            assert_eq!(Location::parse(text, &Dialer::default()).unwrap_err().to_string(), words);
        }
    }
}
