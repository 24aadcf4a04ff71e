//! The kinds of services of a system, and the names in their certificates.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// What a service of a system does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Lets clients in, orchestrates.
    Gateway,
    /// Grows trees.
    Drafter,
    /// Hosts a target.
    Verifier,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gateway, Self::Drafter, Self::Verifier];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Drafter => "drafter",
            Self::Verifier => "verifier",
        }
    }

    /// The name in its certificate, among the alternative names; no public authority signs for such a name.
    pub const fn certificate_name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway.espalier",
            Self::Drafter => "drafter.espalier",
            Self::Verifier => "verifier.espalier",
        }
    }

    /// The same as TLS knows it.
    pub(crate) fn server_name(self) -> ServerName<'static> {
        ServerName::try_from(self.certificate_name()).expect("it is a name of DNS")
    }

    /// Whether a certificate says that its owner is of this kind.
    pub(crate) fn is_in(self, certificate: &CertificateDer<'_>) -> bool {
        let parsed = ParsedCertificate::try_from(certificate);
        parsed.is_ok_and(|parsed| verify_server_name(&parsed, &self.server_name()).is_ok())
    }
}
