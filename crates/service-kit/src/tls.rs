//! Locked doors: connections under TLS 1.3, where both ends may have to show who they are.
//!
//! Between the services of one system each end has a certificate of its own authority, and is known by the name in it
//! ([`Role`]), not by its address: addresses come from DNS, and any process of the network may have had them before. At
//! the door clients check the gateway by its host's name, as browsers do.
//!
//! Files are looked at every few seconds: certificates and authorities can be replaced while all goes on. Connections that
//! are open stay open.

mod client;
mod error;
mod files;
mod fresh;
mod inspect;
mod paths;
mod role;
mod server;
#[cfg(test)]
mod tests;
mod validity;

use std::sync::Arc;

pub use client::ClientTls;
pub(crate) use client::Encrypted;
pub use error::TlsError;
pub use inspect::{Inspected, inspect};
pub use paths::{IdentityFiles, TlsFiles};
pub use role::Role;
use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
pub use server::ServerTls;

/// The only version that is spoken: all peers are of this project, or know gRPC.
const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// What the connection is for, as gRPC names it: HTTP/2.
const PROTOCOL: &[u8] = b"h2";

/// What clients speak that know no HTTP/2.
const HTTP_1: &[u8] = b"http/1.1";

/// The arithmetic of keys.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
