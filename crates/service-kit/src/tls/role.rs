//! The services of a system by the names in their certificates.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// A kind of service. Its name is among the certificate's alternative names; no public authority signs for such a name.
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

    /// The name in a certificate.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway.espalier",
            Self::Drafter => "drafter.espalier",
            Self::Verifier => "verifier.espalier",
        }
    }

    /// The name as TLS knows it.
    pub(crate) fn server_name(self) -> Option<ServerName<'static>> {
        ServerName::try_from(self.name()).ok()
    }

    /// Whether a certificate says that its owner is of this kind.
    pub(crate) fn is_in(self, certificate: &CertificateDer<'_>) -> bool {
        let (parsed, name) = (ParsedCertificate::try_from(certificate), self.server_name());
        let (Ok(parsed), Some(name)) = (parsed, name) else { return false };
        verify_server_name(&parsed, &name).is_ok()
    }
}
