//! What of a gateway is under TLS: its connections to services, and its own door.

use std::path::PathBuf;

use clap::Parser;
use espalier_service_kit::{Dialer, IdentityFiles, Role, ServerTls, TlsArgs, TlsError, TlsFiles};

/// The options of a gateway's connections.
#[derive(Debug, Clone, Default, Parser)]
pub struct LockArgs {
    /// Towards services
    #[command(flatten)]
    pub tls: TlsArgs,
    /// The certificate in PEM that clients are shown, with those between it and the authority; that of `--tls-cert` when
    /// absent
    #[arg(long, env = "ESPALIER_GATEWAY_DOOR_CERT", value_name = "FILE", requires = "door_key")]
    pub door_cert: Option<PathBuf>,
    /// That certificate's private key in PEM
    #[arg(long, env = "ESPALIER_GATEWAY_DOOR_KEY", value_name = "FILE", requires = "door_cert")]
    pub door_key: Option<PathBuf>,
    /// The certificates in PEM of authorities; only clients come in that show a certificate of one of them
    #[arg(long, env = "ESPALIER_GATEWAY_DOOR_CA", value_name = "FILE", conflicts_with = "door_plain")]
    pub door_ca: Option<PathBuf>,
    /// Clients are spoken to in the clear although there is a certificate: another process ends their TLS
    #[arg(long, env = "ESPALIER_GATEWAY_DOOR_PLAIN", conflicts_with = "door_cert", requires = "tls_cert")]
    pub door_plain: bool,
}

impl LockArgs {
    /// How services are connected to. Must be called within a tokio runtime.
    pub(crate) fn dialer(&self) -> Result<Dialer, TlsError> {
        self.tls.dialer(Role::Gateway)
    }

    /// What clients are shown, if they are to be spoken to under TLS. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it, or the option that is missing.
    pub fn door(&self) -> Result<Option<ServerTls>, TlsError> {
        let own = self.door_cert.clone().zip(self.door_key.clone()).map(|(cert, key)| IdentityFiles { cert, key });
        let of_services = || self.tls.files().filter(|_| !self.door_plain)?.identity;
        let identity = own.or_else(of_services);
        match (&identity, &self.door_ca) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(TlsError::NoIdentity),
            (Some(_), _) => {}
        }
        Ok(Some(ServerTls::load(TlsFiles { identity, authorities: self.door_ca.clone() })?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn given(args: &[&str]) -> Result<LockArgs, clap::Error> {
        LockArgs::try_parse_from([&["gateway"], args].concat())
    }

    const OF_SERVICES: [&str; 6] = ["--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"];

    #[tokio::test]
    async fn without_certificates_all_is_in_the_clear_and_half_of_them_is_an_error() {
        let none = given(&[]).unwrap();
        assert_eq!(none.dialer().unwrap().scheme(), "http");
        assert!(none.door().unwrap().is_none());
        for half in [
            &["--tls-cert", "c", "--tls-key", "k"][..],
            &["--tls-ca", "a"],
            &["--door-cert", "c"],
            &["--door-plain"],
            &[&OF_SERVICES[..], &["--door-plain", "--door-cert", "c", "--door-key", "k"]].concat(),
        ] {
            assert!(given(half).is_err(), "{half:?}");
        }
        let refusal = given(&["--door-ca", "a"]).unwrap().door().unwrap_err();
        assert!(matches!(refusal, TlsError::NoIdentity));
    }

    #[tokio::test]
    async fn a_plain_door_is_asked_for() {
        let refusal = given(&OF_SERVICES).unwrap().door().unwrap_err().to_string();
        assert_eq!(refusal, "c cannot be read", "the certificate of services is shown to clients too");
        assert!(given(&[&OF_SERVICES[..], &["--door-plain"]].concat()).unwrap().door().unwrap().is_none());
    }
}
