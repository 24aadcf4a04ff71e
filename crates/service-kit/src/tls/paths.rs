//! Where certificates, keys and authorities are.

use std::path::PathBuf;

/// Where what one end shows of itself is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    /// Its certificate in PEM, and those between it and the authority.
    pub cert: PathBuf,
    /// The certificate's private key in PEM.
    pub key: PathBuf,
}

/// Where what one end shows and trusts is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// What it shows, if anything.
    pub identity: Option<IdentityFiles>,
    /// The certificates in PEM of the authorities that it trusts.
    pub authorities: Option<PathBuf>,
}
