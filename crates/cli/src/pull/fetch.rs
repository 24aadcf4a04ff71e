//! One file after the other, each until it is there whole.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Url;
use tokio::time::sleep;

use super::error::PullError;
use super::part::{Part, checksum};
use super::source::Source;
use super::sums::Sums;
use super::web::{Said, Sent, Web};

/// How often in a row a connection may break without a byte more.
const TRIES_MAX: u32 = 5;

/// The first pause after a connection broke; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

/// Fetches files of a source into a folder.
pub(crate) struct Fetcher {
    pub(crate) web: Web,
    pub(crate) source: Source,
    pub(crate) folder: PathBuf,
    pub(crate) sums: Sums,
}

/// A file that is there.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// Whether it was there before.
    pub(crate) kept: bool,
    /// Whether it was held against a checksum.
    pub(crate) checked: bool,
}

/// A file that is wanted.
struct Wanted<'a> {
    url: &'a Url,
    /// Bytes that it may have.
    limit: u64,
    /// Whether it will be held against a checksum.
    is_checked: bool,
    bar: &'a ProgressBar,
}

impl Fetcher {
    /// Fetches a file of at most `limit` bytes, or finds it in the folder; none if the source has none of that name.
    pub(crate) async fn fetch(&self, name: &str, limit: u64) -> Result<Option<Fetched>, PullError> {
        let (url, expected) = (self.source.url(name)?, self.sums.of(name));
        if let Some(present) = self.present(name, &url).await? {
            return Ok(Some(present));
        }
        let mut part = Part::open(&self.folder, name)?;
        let bar = bar(name);
        let mut tries = 0;
        loop {
            let before = part.bytes;
            let wanted = Wanted { url: &url, limit, is_checked: expected.is_some(), bar: &bar };
            let broken = match self.try_once(&wanted, &mut part).await {
                Ok(true) => break,
                Ok(false) if expected.is_none() => {
                    part.discard();
                    return Ok(None);
                }
                Ok(false) => return Err(PullError::Listed { url: shown(&url) }),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Passing(source)) => source,
            };
            tries = if part.bytes > before { 1 } else { tries + 1 };
            if tries >= TRIES_MAX {
                return Err(PullError::Broken {
                    url: shown(&url),
                    tries,
                    source: broken.map(reqwest::Error::without_url),
                });
            }
            sleep(PAUSE * 2_u32.pow(tries - 1)).await;
        }
        bar.finish_and_clear();
        let bytes = part.bytes;
        let sha256 = part.finish(expected)?;
        Ok(Some(Fetched { name: name.to_owned(), bytes, sha256, kept: false, checked: expected.is_some() }))
    }

    /// The text of a file of at most `limit` bytes, which is not kept; none if the source has none of that name.
    pub(crate) async fn text(&self, name: &str, limit: u64) -> Result<Option<String>, PullError> {
        let url = self.source.url(name)?;
        let unreachable = |source: reqwest::Error| PullError::Broken {
            url: shown(&url),
            tries: 1,
            source: Some(source.without_url()),
        };
        let mut sent = match self.web.ask(&url, 0, None).await.map_err(unreachable)? {
            Said::Sent(sent) => sent,
            Said::Absent | Said::Nothing { .. } => return Ok(None),
            Said::Later(status) | Said::No(status) => return Err(PullError::Status { url: shown(&url), status }),
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = sent.response.chunk().await.map_err(unreachable)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > limit {
                return Err(PullError::TooLarge { url: shown(&url), bytes: bytes.len() as u64, limit });
            }
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The file, if it is in the folder already. Another one than was expected is an error: nothing is replaced.
    async fn present(&self, name: &str, url: &Url) -> Result<Option<Fetched>, PullError> {
        let (path, expected) = (self.folder.join(name), self.sums.of(name));
        let Ok(metadata) = path.metadata() else { return Ok(None) };
        let bytes = metadata.len();
        if expected.is_none() {
            let expected = self.web.length(url).await.map_err(|source| PullError::Client(source.without_url()))?;
            if let Some(expected) = expected.filter(|expected| *expected != bytes) {
                return Err(PullError::OtherSize { path, url: shown(url), expected, found: bytes });
            }
        }
        let sha256 = checksum(&path)?;
        if let Some(expected) = expected.filter(|expected| **expected != sha256) {
            return Err(PullError::Present { path, expected: expected.to_owned(), found: sha256 });
        }
        Ok(Some(Fetched { name: name.to_owned(), bytes, sha256, kept: true, checked: expected.is_some() }))
    }

    /// Asks once for what is missing; says whether the file is whole, or that there is none.
    async fn try_once(&self, wanted: &Wanted<'_>, part: &mut Part) -> Result<bool, Trouble> {
        let tag = part.tag();
        // What nothing names, and nothing is held against, may be the beginning of another version.
        if part.bytes > 0 && tag.is_none() && !wanted.is_checked {
            part.clear()?;
        }
        match self.web.ask(wanted.url, part.bytes, tag.as_deref()).await? {
            Said::Sent(sent) => {
                take(*sent, wanted, part).await?;
                Ok(true)
            }
            Said::Absent => Ok(false),
            Said::Nothing { total } if total == Some(part.bytes) => Ok(true),
            Said::Nothing { .. } => {
                part.clear()?;
                Err(Trouble::Passing(None))
            }
            Said::Later(_) => Err(Trouble::Passing(None)),
            Said::No(status) => Err(PullError::Status { url: shown(wanted.url), status }.into()),
        }
    }
}

/// Writes what comes behind what is there.
async fn take(mut sent: Sent, wanted: &Wanted<'_>, part: &mut Part) -> Result<(), Trouble> {
    let Wanted { url, limit, bar, .. } = *wanted;
    if sent.from == 0 && part.bytes > 0 {
        part.clear()?;
    }
    if sent.from != part.bytes {
        return Err(PullError::OtherPart { url: shown(url) }.into());
    }
    let within = |bytes: u64| match bytes > limit {
        true => Err(PullError::TooLarge { url: shown(url), bytes, limit }),
        false => Ok(()),
    };
    within(sent.total.unwrap_or(0))?;
    part.keep_tag(sent.tag.as_deref())?;
    bar.set_length(sent.total.unwrap_or(0));
    bar.set_position(part.bytes);
    bar.reset_eta();
    while let Some(chunk) = sent.response.chunk().await? {
        within(part.bytes + chunk.len() as u64)?;
        part.write(&chunk)?;
        bar.set_position(part.bytes);
    }
    // A server that told no length may have stopped anywhere; one that did has its word checked.
    match sent.total.is_none_or(|total| total == part.bytes) {
        true => Ok(()),
        false => Err(Trouble::Passing(None)),
    }
}

/// What keeps a file from coming.
enum Trouble {
    /// A further try may do.
    Passing(Option<reqwest::Error>),
    /// None will.
    Final(PullError),
}

impl From<PullError> for Trouble {
    fn from(error: PullError) -> Self {
        Self::Final(error)
    }
}

impl From<reqwest::Error> for Trouble {
    fn from(error: reqwest::Error) -> Self {
        match error.is_redirect() || error.is_builder() {
            true => Self::Final(PullError::Client(error.without_url())),
            false => Self::Passing(Some(error)),
        }
    }
}

/// An address without what may be secret in it.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

/// A bar over the bytes of a file that shows the time left; nothing where no person looks on.
fn bar(name: &str) -> ProgressBar {
    let bar = ProgressBar::new(0).with_message(name.to_owned());
    let template = "{msg:24} {wide_bar:.cyan/blue} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta:>4}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
