//! What is asked over HTTP.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, IF_RANGE, LAST_MODIFIED, RANGE};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Response, StatusCode, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::error::PullError;
use super::source::check_clear;

/// A connection that is not there by then counts as refused.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A server that says nothing for so long counts as gone.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How often a server may point elsewhere: hubs do so once or twice.
const REDIRECTS_MAX: usize = 5;

/// A way to the files of a source.
#[derive(Debug, Clone)]
pub(crate) struct Web {
    client: Client,
}

/// A file as a server sends it, from some byte on.
pub(crate) struct Sent {
    pub(crate) response: Response,
    /// The first byte that comes.
    pub(crate) from: u64,
    /// Bytes of the whole file, if the server tells.
    pub(crate) total: Option<u64>,
    /// What the server calls this version of the file.
    pub(crate) tag: Option<String>,
}

/// What a server says to being asked for a file.
pub(crate) enum Said {
    Sent(Box<Sent>),
    Absent,
    /// It has no byte there: the file has so many, if it tells.
    Nothing {
        total: Option<u64>,
    },
    /// It may say otherwise a little later.
    Later(StatusCode),
    /// It does not give it.
    No(StatusCode),
}

impl Web {
    /// Servers are checked by the authorities of this machine, or by those of a file in PEM.
    pub(crate) fn open(authorities: Option<&Path>, insecure: bool) -> Result<Self, PullError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = tls.with_root_certificates(trusted(authorities)?).with_no_client_auth();
        let follow = move |attempt: Attempt<'_>| match check_clear(attempt.url(), insecure) {
            Ok(()) if attempt.previous().len() <= REDIRECTS_MAX => attempt.follow(),
            Ok(()) => attempt.error("the server points elsewhere too often"),
            Err(error) => attempt.error(error),
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT_MAX)
            .read_timeout(SILENCE_MAX)
            .redirect(Policy::custom(follow))
            .user_agent(concat!("espalier/", env!("CARGO_PKG_VERSION")));
        Ok(Self { client: client.build()? })
    }

    /// The bytes of a file, if the server tells.
    pub(crate) async fn length(&self, url: &Url) -> Result<Option<u64>, reqwest::Error> {
        let response = self.client.head(url.clone()).send().await?;
        let told = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        Ok(told.filter(|_| response.status().is_success()))
    }

    /// Asks for a file, from byte `from` on if it is still the version that `tag` names.
    pub(crate) async fn ask(&self, url: &Url, from: u64, tag: Option<&str>) -> Result<Said, reqwest::Error> {
        let mut request = self.client.get(url.clone());
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
            request = tag.into_iter().fold(request, |request, tag| request.header(IF_RANGE, tag));
        }
        let response = request.send().await?;
        let tag = tag_of(response.headers());
        Ok(match response.status() {
            StatusCode::OK => {
                let total = response.content_length();
                Said::Sent(Box::new(Sent { response, from: 0, total, tag }))
            }
            StatusCode::PARTIAL_CONTENT => {
                let range = range_of(response.headers());
                let (from, total) = range.map_or((u64::MAX, None), |range| (range.from, range.total));
                Said::Sent(Box::new(Sent { response, from, total, tag }))
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let told = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
                Said::Nothing { total: told.and_then(|range| range.strip_prefix("bytes */")?.parse().ok()) }
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => Said::Absent,
            status if is_of_the_moment(status) => Said::Later(status),
            status => Said::No(status),
        })
    }
}

/// Whom servers are checked by.
fn trusted(authorities: Option<&Path>) -> Result<RootCertStore, PullError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = authorities else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let no_authority = || PullError::Authority { path: path.to_owned() };
    for certificate in CertificateDer::pem_file_iter(path).map_err(|_| no_authority())? {
        roots.add(certificate.map_err(|_| no_authority())?).map_err(|_| no_authority())?;
    }
    Ok(roots)
}

fn is_of_the_moment(status: StatusCode) -> bool {
    status.is_server_error() || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status)
}

/// What names a version beyond doubt: an entity's tag that is not weak, or else when it was changed.
fn tag_of(headers: &HeaderMap) -> Option<String> {
    let told = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let tag = told(ETAG).filter(|tag| !tag.starts_with("W/"));
    tag.or_else(|| told(LAST_MODIFIED)).map(str::to_owned)
}

/// Which part of a file comes.
#[derive(Debug, PartialEq, Eq)]
struct PartOf {
    from: u64,
    total: Option<u64>,
}

fn range_of(headers: &HeaderMap) -> Option<PartOf> {
    let told = headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (range, total) = told.split_once('/')?;
    Some(PartOf { from: range.split_once('-')?.0.parse().ok()?, total: total.parse().ok() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn with(name: reqwest::header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn parts_of_files_are_read_from_their_headers() {
        let range = |text| range_of(&with(CONTENT_RANGE, text));
        assert_eq!(range("bytes 5-9/10"), Some(PartOf { from: 5, total: Some(10) }));
        assert_eq!(range("bytes 5-9/*"), Some(PartOf { from: 5, total: None }));
        for wrong in ["bytes */10", "items 5-9/10", "bytes -9/10"] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_weak_tag_names_no_version() {
        assert_eq!(tag_of(&with(ETAG, "\"v1\"")).as_deref(), Some("\"v1\""));
        assert_eq!(tag_of(&with(ETAG, "W/\"v1\"")), None);
        let changed = "Thu, 26 Nov 2026 07:00:00 GMT";
        assert_eq!(tag_of(&with(LAST_MODIFIED, changed)).as_deref(), Some(changed));
    }

    #[test]
    fn authorities_come_from_a_file_that_has_some() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n").unwrap();
        assert!(matches!(trusted(Some(file.path())), Err(PullError::Authority { .. })));
        assert!(matches!(trusted(Some(Path::new("/nowhere"))), Err(PullError::Authority { .. })));
        assert!(Web::open(None, false).is_ok());
    }
}
