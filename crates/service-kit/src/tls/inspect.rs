//! What certificates come to, for who wants to know before a service uses them.

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;

use super::error::TlsError;
use super::files::{Contents, Material};
use super::paths::TlsFiles;
use super::role::Role;
use super::server;

/// A certificate that a service can show, as its files have it at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// The last second in which it holds, where the certificate says so.
    pub until: Option<Timestamp>,
    /// Whether less than a quarter of its time is left: what renews certificates does so before.
    pub ends_soon: bool,
    /// The kinds of services that it is for.
    pub roles: Vec<Role>,
    /// Those of the names that were asked about that it is not for.
    pub names_missing: Vec<String>,
    /// Whether one of the authorities has signed it; none where there are no authorities.
    pub is_signed: Option<bool>,
}

/// Reads the files that a service would show and trust, and looks at what is in them as the service would at this time, and
/// at whether the certificate has these names.
///
/// # Errors
/// [`TlsError`] names the file and what is wrong with it: one that cannot be read, a certificate that does not hold at this
/// time, a key that is not the certificate's.
pub fn inspect(files: &TlsFiles, names: &[String], now: Timestamp) -> Result<Inspected, TlsError> {
    let material = || Contents::read(files)?.parse(files, now);
    let Material { identity, authorities } = material()?;
    let identity = identity.ok_or(TlsError::NoIdentity)?;
    // Whether the key is the certificate's.
    server::config(material()?, &[])?;
    let own = &identity.chain[0];
    let names_missing = names.iter().filter(|name| !is_for(own, name)).cloned().collect();
    Ok(Inspected {
        until: identity.validity.map(|validity| validity.until),
        ends_soon: identity.validity.is_some_and(|validity| validity.is_ending_at(now)),
        roles: Role::ALL.into_iter().filter(|role| role.is_in(own)).collect(),
        names_missing,
        is_signed: authorities.map(|authorities| is_signed(&identity.chain, &authorities, now)),
    })
}

fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else { return false };
    let parsed = ParsedCertificate::try_from(certificate);
    parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
}

/// Whether one of the authorities has signed the first certificate of a chain, by way of the others.
fn is_signed(chain: &[CertificateDer<'_>], authorities: &RootCertStore, now: Timestamp) -> bool {
    let [own, between @ ..] = chain else { return false };
    let Ok(parsed) = ParsedCertificate::try_from(own) else { return false };
    let seconds = std::time::Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    let (now, provider) = (UnixTime::since_unix_epoch(seconds), super::provider());
    let algorithms = provider.signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&parsed, authorities, between, now, algorithms).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use espalier_certs::{Authority, write_authority, write_signed};

    use super::super::paths::IdentityFiles;
    use super::*;

    fn authority() -> Authority {
        let now = SystemTime::now();
        Authority::new("test", now - Duration::from_secs(1000)..now + Duration::from_secs(3000)).unwrap()
    }

    fn files(folder: &Path, key: &str) -> TlsFiles {
        let identity = IdentityFiles { cert: folder.join("host.pem"), key: folder.join(key) };
        TlsFiles { identity: Some(identity), authorities: Some(folder.join("ca.pem")) }
    }

    #[test]
    fn what_a_certificate_is_for_who_signed_it_and_how_long_it_holds_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, others) = (authority(), authority());
        write_authority(folder.path(), &ours).unwrap();
        let names = [Role::Gateway.certificate_name(), "gateway.example", "127.0.0.1"];
        write_signed(folder.path(), "host", &ours.sign(&names).unwrap()).unwrap();
        let asked = ["gateway.example", "127.0.0.1", "10.0.0.1", "no name"].map(str::to_owned);
        let look = |now| inspect(&files(folder.path(), "host.key"), &asked, now).unwrap();
        let found = look(Timestamp::now());
        assert_eq!((found.roles, found.is_signed, found.ends_soon), (vec![Role::Gateway], Some(true), false));
        assert_eq!(found.names_missing, ["10.0.0.1", "no name"]);
        let later = Timestamp::now() + Duration::from_secs(2500);
        assert!(found.until.unwrap() > later && look(later).ends_soon);

        write_authority(folder.path(), &others).unwrap();
        assert_eq!(look(Timestamp::now()).is_signed, Some(false));
    }

    #[test]
    fn what_no_service_could_use_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let ours = authority();
        write_authority(folder.path(), &ours).unwrap();
        for name in ["host", "other"] {
            write_signed(folder.path(), name, &ours.sign(&[name]).unwrap()).unwrap();
        }
        let look = |key, now| inspect(&files(folder.path(), key), &[], now).unwrap_err();
        assert!(matches!(look("other.key", Timestamp::now()), TlsError::Pair { .. }));
        assert!(matches!(look("gone.key", Timestamp::now()), TlsError::Read { .. }));
        let later = Timestamp::now() + Duration::from_secs(4000);
        assert!(matches!(look("host.key", later), TlsError::Time { .. }));
    }
}
