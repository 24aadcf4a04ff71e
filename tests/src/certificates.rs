//! Certificates for the services of a system.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use espalier_certs::{Authority, write_authority, write_signed};
use espalier_service_kit::{CallerTlsArgs, Role, TlsArgs};
use tempfile::TempDir;

/// An authority's certificate, and one of each kind of service, in a folder that ends with it.
pub struct Certificates(TempDir);

impl Certificates {
    /// New ones, of an authority that signs nothing else, for services of this machine.
    #[expect(clippy::new_without_default, reason = "no two are alike")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(&folder.path().to_string_lossy(), for_an_hour()).unwrap();
        write_authority(folder.path(), &authority).unwrap();
        for role in Role::ALL {
            let signed = authority.sign(&[role.certificate_name(), "127.0.0.1"]).unwrap();
            write_signed(folder.path(), role.name(), &signed).unwrap();
        }
        Self(folder)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.folder().join("ca.pem")
    }

    /// What a service of some kind is told.
    pub fn of(&self, role: Role) -> TlsArgs {
        let file = |end: &str| Some(self.folder().join(format!("{}.{end}", role.name())));
        TlsArgs { tls_cert: file("pem"), tls_key: file("key"), tls_ca: Some(self.authority()) }
    }

    /// What a client is told that trusts this authority and shows some certificate, or none.
    pub fn of_client(&self, shown: Option<TlsArgs>) -> CallerTlsArgs {
        let TlsArgs { tls_cert, tls_key, .. } = shown.unwrap_or_default();
        CallerTlsArgs { tls_ca: Some(self.authority()), tls_cert, tls_key, tls_name: None }
    }
}

fn for_an_hour() -> Range<SystemTime> {
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    now - hour..now + hour
}
