//! When a certificate holds.

use std::time::Duration;

use jiff::Timestamp;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// The first and the last second in which a certificate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

impl Validity {
    /// Of a certificate. The library tells its bounds only to who asks at the wrong time, so it is asked at two of them.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let from = match fault_at(certificate, UnixTime::since_unix_epoch(Duration::ZERO))? {
            CertificateError::NotValidYetContext { not_before, .. } => not_before,
            _ => UnixTime::since_unix_epoch(Duration::ZERO),
        };
        let until = match fault_at(certificate, UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX)))? {
            CertificateError::ExpiredContext { not_after, .. } => not_after,
            _ => return None,
        };
        let timestamp = |time: UnixTime| Timestamp::from_second(i64::try_from(time.as_secs()).ok()?).ok();
        Some(Self { from: timestamp(from)?, until: timestamp(until)? })
    }

    pub(crate) fn holds_at(&self, now: Timestamp) -> bool {
        (self.from..=self.until).contains(&now)
    }

    /// Whether less than a quarter of its time is left: what renews certificates does so before.
    pub(crate) fn is_ending_at(&self, now: Timestamp) -> bool {
        let (left, whole) = (self.until.duration_since(now), self.until.duration_since(self.from));
        left < whole / 4
    }
}

/// What is wrong with a certificate at some time. With no authority something always is, but the time is looked at first.
fn fault_at(certificate: &CertificateDer<'_>, time: UnixTime) -> Option<CertificateError> {
    let (parsed, nobody) = (ParsedCertificate::try_from(certificate).ok()?, RootCertStore::empty());
    let algorithms = super::provider().signature_verification_algorithms.all;
    match verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], time, algorithms) {
        Err(Error::InvalidCertificate(fault)) => Some(fault),
        _ => None,
    }
}
