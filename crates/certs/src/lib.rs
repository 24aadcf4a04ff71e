//! Certificates to try a system under TLS with: an authority that is made on the spot and signs for a few names.
//!
//! Where it matters an authority is kept by something that renews what it has signed, such as cert-manager or a vault.

mod files;

use std::ops::Range;
use std::time::SystemTime;

pub use files::{FilesError, write_authority, write_signed};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use thiserror::Error;

/// A certificate that cannot be made.
#[derive(Debug, Error)]
#[error("no certificate can be made for {}", names.join(", "))]
pub struct CertError {
    /// Whom it was to be for.
    pub names: Vec<String>,
    source: rcgen::Error,
}

/// Who signs. Its key is never written down: what it is to sign, it signs while it is there.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// When it, and all that it signs unless told otherwise, holds.
    valid: Range<SystemTime>,
}

/// A certificate and its key, in PEM.
pub struct Signed {
    /// The certificate.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// A new one by this name, for some time.
    ///
    /// # Errors
    /// [`CertError`] for want of randomness.
    pub fn new(name: &str, valid: Range<SystemTime>) -> Result<Self, CertError> {
        let failed = |source| CertError { names: vec![name.to_owned()], source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(&[], &valid).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        // It signs for services, not for further authorities.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(failed)?;
        Ok(Self { issuer, valid })
    }

    /// Its own certificate, in PEM: what others check by.
    pub fn cert(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for some hosts and services, which hold for as long as the authority does.
    ///
    /// # Errors
    /// [`CertError`] if a name is none.
    pub fn sign(&self, names: &[&str]) -> Result<Signed, CertError> {
        self.sign_for(names, &self.valid)
    }

    /// A certificate for some hosts and services, for some time.
    ///
    /// # Errors
    /// [`CertError`] if a name is none.
    pub fn sign_for(&self, names: &[&str], valid: &Range<SystemTime>) -> Result<Signed, CertError> {
        let failed = |source| CertError { names: names.iter().map(|&name| name.to_owned()).collect(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(names, valid).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, names.first().copied().unwrap_or_default());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Services call and are called.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let cert = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Signed { cert: cert.pem(), key: key.serialize_pem() })
    }
}

fn params(names: &[&str], valid: &Range<SystemTime>) -> Result<CertificateParams, rcgen::Error> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    (params.not_before, params.not_after) = (valid.start.into(), valid.end.into());
    Ok(params)
}
