//! Why a door cannot be locked.

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use rustls::pki_types::pem;
use thiserror::Error;

use super::paths::IdentityFiles;

/// Why certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is no PEM.
    #[error("{} is not in PEM", path.display())]
    Pem {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// A file has no certificate.
    #[error("{} has no certificate", path.display())]
    NoCertificate {
        /// Which.
        path: PathBuf,
    },
    /// An authority's certificate is none.
    #[error("{} has what is no certificate of an authority", path.display())]
    Authority {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// This machine trusts nobody.
    #[error("this machine has no authorities to check certificates by: name a file of them")]
    NoSystemAuthority,
    /// Certificate and key do not belong together, or are of no use.
    #[error("the certificate in {} cannot be used with the key in {}", files.cert.display(), files.key.display())]
    Pair {
        /// Where they are.
        files: IdentityFiles,
        /// What is wrong with them.
        source: rustls::Error,
    },
    /// The library refuses to speak as it is told to.
    #[error("TLS cannot be spoken")]
    Protocol(#[source] rustls::Error),
    /// A server without a certificate.
    #[error("a server needs a certificate and its key")]
    NoIdentity,
    /// The certificate is of another time.
    #[error("the certificate in {} is valid from {from} to {until}, and now it is {now}", path.display())]
    Time {
        /// The certificate's file.
        path: PathBuf,
        /// When it begins to hold.
        from: Timestamp,
        /// When it ceases to hold.
        until: Timestamp,
        /// What this machine takes the time to be.
        now: Timestamp,
    },
    /// The certificate is for another service.
    #[error("the certificate in {} is not for the name {name}", path.display())]
    Name {
        /// The certificate's file.
        path: PathBuf,
        /// The name that the others will look for.
        name: &'static str,
    },
    /// What is to be a server's name is none.
    #[error("`{found}` is not the name of a server")]
    ServerName {
        /// What was given.
        found: String,
    },
}
