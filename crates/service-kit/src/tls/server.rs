//! The end that is connected to.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::error::TlsError;
use super::files::Material;
use super::fresh::Fresh;
use super::paths::TlsFiles;
use super::role::Role;
use super::{HTTP_1, PROTOCOL, VERSIONS, provider};
use crate::wire::Wire;

/// Who has not shown who he is within this time is let go.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// A server's certificate, and whom it lets in; clones share it.
#[derive(Clone)]
pub struct ServerTls {
    config: Fresh<ServerConfig>,
    callers: Option<&'static [Role]>,
}

impl ServerTls {
    /// The door of a system, for clients of gRPC and of HTTP/1. It shows the certificate of some files. Where they name authorities, it lets those in alone who show a
    /// certificate of one of them. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let make = |material| config(material, &[PROTOCOL, HTTP_1]);
        Ok(Self { config: Fresh::load(files, Box::new(make))?, callers: None })
    }

    /// A service of a system, which is one of its kind by its certificate and answers only those whose certificates say that
    /// they are of one of these kinds. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// As [`Self::load`], and a certificate without the name of its kind.
    pub fn of_service(files: TlsFiles, own: Role, callers: &'static [Role]) -> Result<Self, TlsError> {
        let make = move |material: Material| {
            material.check_role(own)?;
            config(material, &[PROTOCOL])
        };
        Ok(Self { config: Fresh::load(files, Box::new(make))?, callers: Some(callers) })
    }

    /// A connection under TLS, and whether who has opened it is one of those that are answered.
    pub(crate) async fn accept(&self, stream: Wire) -> io::Result<(TlsStream<Wire>, bool)> {
        let accepting = TlsAcceptor::from(self.config.get()).accept(stream);
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        let stream = timeout(HANDSHAKE_MAX, accepting).await.map_err(late)??;
        let caller = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let is_in = |role: &Role| caller.is_some_and(|certificate| role.is_in(certificate));
        let admitted = self.callers.is_none_or(|callers| callers.iter().any(is_in));
        Ok((stream, admitted))
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("callers", &self.callers).finish_non_exhaustive()
    }
}

/// What a server speaks by.
pub(super) fn config(material: Material, protocols: &[&[u8]]) -> Result<ServerConfig, TlsError> {
    let identity = material.identity.ok_or(TlsError::NoIdentity)?;
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(VERSIONS);
    let builder = builder.map_err(TlsError::Protocol)?;
    let builder = match material.authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider()).build();
            // A store without authorities is made nowhere.
            let verifier = verifier.map_err(|error| TlsError::Protocol(rustls::Error::General(error.to_string())))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let made = builder.with_single_cert(identity.chain, identity.key);
    let mut config = made.map_err(|source| TlsError::Pair { files: identity.files, source })?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // A session that is resumed is not checked again: it would outlive the certificate, or the authority, that it began with.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
