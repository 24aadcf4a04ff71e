//! The end that connects.

use std::fmt;
use std::io;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::TlsError;
use super::files::Material;
use super::fresh::Fresh;
use super::paths::TlsFiles;
use super::role::Role;
use super::{PROTOCOL, VERSIONS, provider};
use crate::reach::answered;
use crate::wire::Wire;

/// How long a server's first word is waited for: it is on its way when the handshake is over.
const FIRST_WORD_MAX: Duration = Duration::from_millis(500);

/// A connection under TLS.
pub(crate) type Encrypted = BufReader<TlsStream<Wire>>;

/// Whom a client trusts, and what it shows of itself; clones share it.
#[derive(Clone)]
pub struct ClientTls {
    config: Fresh<ClientConfig>,
    /// The name that servers must have; that of the address when none.
    name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// A client that trusts the authorities of some files, or those of this machine where they name none, and shows their
    /// certificate if they have one. Servers must have the name that is in their address. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self { config: Fresh::load(files, Box::new(config))?, name: None })
    }

    /// A service of a system that calls others, and is one of its kind by its certificate. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// As [`Self::load`], and a certificate without the name of its kind.
    pub fn of_service(files: TlsFiles, own: Role) -> Result<Self, TlsError> {
        let make = move |material: Material| {
            material.check_role(own)?;
            config(material)
        };
        Ok(Self { config: Fresh::load(files, Box::new(make))?, name: None })
    }

    /// The same for services of one kind, whatever address they are at.
    #[must_use]
    pub fn expecting(&self, role: Role) -> Self {
        Self { config: self.config.clone(), name: Some(role.server_name()) }
    }

    /// The same for servers that have this name, whatever address they are at.
    ///
    /// # Errors
    /// [`TlsError::ServerName`] quotes what is no name.
    pub fn expecting_name(&self, name: &str) -> Result<Self, TlsError> {
        let found = || TlsError::ServerName { found: name.to_owned() };
        let name = ServerName::try_from(name.to_owned()).map_err(|_| found())?;
        Ok(Self { config: self.config.clone(), name: Some(name) })
    }

    /// A connection under TLS over one to `host`, whose end has not refused it.
    pub(crate) async fn connect(&self, host: &str, stream: Wire) -> io::Result<Encrypted> {
        let name = match &self.name {
            Some(name) => name.clone(),
            // An IPv6 address stands in brackets.
            None => ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(io::Error::other)?,
        };
        let stream = answered(TlsConnector::from(self.config.get()).connect(name, stream)).await?;
        // To a client the handshake of TLS 1.3 is over before the server has seen its certificate. In HTTP/2 a server speaks
        // first: either of its settings, or of what it has against the certificate.
        let mut stream = BufReader::new(stream);
        match timeout(FIRST_WORD_MAX, stream.fill_buf()).await {
            Ok(Ok([])) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Err(error)) => Err(error),
            // Some let the client speak first.
            Ok(Ok(_)) | Err(_) => Ok(stream),
        }
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("name", &self.name).finish_non_exhaustive()
    }
}

fn config(material: Material) -> Result<ClientConfig, TlsError> {
    let authorities = material.authorities.map_or_else(of_system, Ok)?;
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(VERSIONS);
    let builder = builder.map_err(TlsError::Protocol)?.with_root_certificates(authorities);
    let mut config = match material.identity {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let made = builder.with_client_auth_cert(own.chain, own.key);
            made.map_err(|source| TlsError::Pair { files: own.files, source })?
        }
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Whom this machine trusts.
fn of_system() -> Result<RootCertStore, TlsError> {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if authorities.is_empty() { Err(TlsError::NoSystemAuthority) } else { Ok(authorities) }
}
