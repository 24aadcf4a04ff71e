//! From files to keys, certificates and authorities.

use std::path::Path;
use std::{fs, io};

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::TlsError;
use super::paths::{IdentityFiles, TlsFiles};
use super::role::Role;
use super::validity::Validity;

/// Bytes that a file may have: a bundle of all public authorities has a quarter of a million.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What is in files. It has a key among it, so it is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    identity: Option<(Vec<u8>, Vec<u8>)>,
    authorities: Option<Vec<u8>>,
}

impl Contents {
    pub(super) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let identity = files.identity.as_ref().map(|files| Ok((read(&files.cert)?, read(&files.key)?)));
        let authorities = files.authorities.as_deref().map(read);
        Ok(Self { identity: identity.transpose()?, authorities: authorities.transpose()? })
    }

    /// What it stands for, and that it holds at this time.
    pub(super) fn parse(&self, files: &TlsFiles, now: Timestamp) -> Result<Material, TlsError> {
        let identity = files.identity.as_ref().zip(self.identity.as_ref());
        let identity = identity.map(|(files, (cert, key))| Identity::parse(files, cert, key, now)).transpose()?;
        let authorities = files.authorities.as_deref().zip(self.authorities.as_deref());
        let authorities = authorities.map(|(path, bytes)| parse_authorities(path, bytes)).transpose()?;
        Ok(Material { identity, authorities })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read { path: path.to_owned(), source };
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        let words = format!("it has {bytes} bytes, and at most {FILE_BYTES_MAX} are read");
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, words)));
    }
    fs::read(path).map_err(failed)
}

/// What one end shows and trusts.
pub(super) struct Material {
    pub(super) identity: Option<Identity>,
    pub(super) authorities: Option<RootCertStore>,
}

impl Material {
    /// That the others will know what shows this for a service of this kind.
    pub(super) fn check_role(&self, role: Role) -> Result<(), TlsError> {
        let Some(own) = &self.identity else { return Err(TlsError::NoIdentity) };
        match role.is_in(&own.chain[0]) {
            true => Ok(()),
            false => Err(TlsError::Name { path: own.files.cert.clone(), name: role.certificate_name() }),
        }
    }
}

/// What one end shows.
pub(super) struct Identity {
    pub(super) files: IdentityFiles,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) validity: Option<Validity>,
}

impl Identity {
    fn parse(files: &IdentityFiles, cert: &[u8], key: &[u8], now: Timestamp) -> Result<Self, TlsError> {
        let chain = certificates(&files.cert, cert)?;
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|source| TlsError::Pem { path: files.key.clone(), source })?;
        let validity = Validity::of(&chain[0]);
        if let Some(Validity { from, until }) = validity.filter(|validity| !validity.holds_at(now)) {
            return Err(TlsError::Time { path: files.cert.clone(), from, until, now });
        }
        Ok(Self { files: files.clone(), chain, key, validity })
    }
}

/// At least one certificate.
fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|source| TlsError::Pem { path: path.to_owned(), source })?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(found)
}

fn parse_authorities(path: &Path, bytes: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(path, bytes)? {
        authorities.add(certificate).map_err(|source| TlsError::Authority { path: path.to_owned(), source })?;
    }
    Ok(authorities)
}
