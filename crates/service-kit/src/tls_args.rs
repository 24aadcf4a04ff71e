//! What certificates a process is told to use.

use std::path::PathBuf;

use clap::Parser;

use crate::connect::Dialer;
use crate::tls::{ClientTls, IdentityFiles, Role, ServerTls, TlsError, TlsFiles};

/// The options of a service's connections to others.
#[derive(Debug, Clone, Default, Parser)]
pub struct TlsArgs {
    /// This service's certificate in PEM, with those between it and the authority. Then all that passes between services
    /// is under TLS, and each shows the others what it is
    #[arg(long, env = "ESPALIER_TLS_CERT", value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key in PEM
    #[arg(long, env = "ESPALIER_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The certificates in PEM of the authorities that sign for the services of this system and for nobody else
    #[arg(long, env = "ESPALIER_TLS_CA", value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// The files, if connections are to be under TLS.
    pub fn files(&self) -> Option<TlsFiles> {
        let identity = identity(self.tls_cert.as_ref(), self.tls_key.as_ref());
        identity.map(|identity| TlsFiles { identity: Some(identity), authorities: self.tls_ca.clone() })
    }

    /// How a service of this kind connects to others. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
    pub fn dialer(&self, own: Role) -> Result<Dialer, TlsError> {
        let tls = self.files().map(|files| ClientTls::of_service(files, own)).transpose()?;
        Ok(Dialer::new(tls))
    }

    /// What a service of this kind shows to those who connect to it, and of which kinds these may be. Must be called within
    /// a tokio runtime.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
    pub fn server(&self, own: Role, callers: &'static [Role]) -> Result<Option<ServerTls>, TlsError> {
        self.files().map(|files| ServerTls::of_service(files, own, callers)).transpose()
    }
}

/// The options of a client's connection to an address with `https://`.
#[derive(Debug, Clone, Default, Parser)]
pub struct CallerTlsArgs {
    /// The certificates in PEM of the authorities that a gateway's certificate is checked by; those of this machine when
    /// absent
    #[arg(long, env = "ESPALIER_TLS_CA", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// A certificate in PEM to show to the gateway
    #[arg(long, env = "ESPALIER_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key in PEM
    #[arg(long, env = "ESPALIER_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The name that the gateway's certificate must have; that in the address when absent
    #[arg(long, env = "ESPALIER_TLS_NAME", value_name = "NAME")]
    pub tls_name: Option<String>,
}

impl CallerTlsArgs {
    /// How an address is connected to: under TLS if it says so. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
    pub fn dialer(&self, address: &str) -> Result<Dialer, TlsError> {
        if !address.starts_with("https://") {
            return Ok(Dialer::default());
        }
        let identity = identity(self.tls_cert.as_ref(), self.tls_key.as_ref());
        let tls = ClientTls::load(TlsFiles { identity, authorities: self.tls_ca.clone() })?;
        let tls = self.tls_name.as_ref().map_or(Ok(tls.clone()), |name| tls.expecting_name(name))?;
        Ok(Dialer::new(Some(tls)))
    }
}

fn identity(cert: Option<&PathBuf>, key: Option<&PathBuf>) -> Option<IdentityFiles> {
    cert.zip(key).map(|(cert, key)| IdentityFiles { cert: cert.clone(), key: key.clone() })
}
