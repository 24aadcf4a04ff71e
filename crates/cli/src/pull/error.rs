//! Why a checkpoint cannot be fetched.

use std::path::PathBuf;

use reqwest::StatusCode;

/// Why a checkpoint cannot be fetched. Addresses are told without what may be secret in them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PullError {
    #[error("`{given}` is not the address of a folder or of a .gguf file, like https://HOST/org/model/resolve/main/")]
    Address { given: String },
    #[error("what comes from {host} in the clear could be anybody's: give an https:// address, or --insecure")]
    Clear { host: String },
    #[error("the address names no model, so name the folder with --to")]
    NoName,
    #[error("`{given}` is neither 64 hexadecimal digits, nor NAME= and those, nor a file of checksums")]
    Sum { given: String, source: Option<std::io::Error> },
    #[error("a checksum without a name is of use for a single .gguf file: write NAME=HEX")]
    NamelessSum,
    #[error("line {line} of {what} is not a checksum and the name of a file")]
    SumLine { what: String, line: usize },
    #[error("there is no {url}; the address of a folder is wanted, on a hub like https://HOST/org/model/resolve/main/")]
    Missing { url: String },
    #[error("{url} is listed among the checksums, but is not there")]
    Listed { url: String },
    #[error("{url} is answered with {status}")]
    Status { url: String, status: StatusCode },
    #[error("{url} has {bytes} bytes, and at most {limit} are fetched")]
    TooLarge { url: String, bytes: u64, limit: u64 },
    #[error(
        "{url} does not come: the connection broke {tries} times in a row; the same command goes on where it stopped"
    )]
    Broken { url: String, tries: u32, source: Option<reqwest::Error> },
    #[error("{url} is answered with another part of the file than was asked for")]
    OtherPart { url: String },
    #[error("{name} has the checksum {found}, and {expected} was expected: nothing of it was kept")]
    Checksum { name: String, expected: String, found: String },
    #[error("{} has the checksum {found}, and {expected} was expected: take it away to fetch it again", path.display())]
    Present { path: PathBuf, expected: String, found: String },
    #[error(
        "{} has {found} bytes, and {url} has {expected}: take it away, or name another folder with --to",
        path.display()
    )]
    OtherSize { path: PathBuf, url: String, expected: u64, found: u64 },
    #[error("{} is being written by another process", path.display())]
    Locked { path: PathBuf },
    #[error("{}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{url} is no index of weights: {what}")]
    Index { url: String, what: String },
    #[error("no connection can be made")]
    Client(#[from] reqwest::Error),
    #[error("{} has what is no certificate of an authority", path.display())]
    Authority { path: PathBuf },
    #[error("TLS cannot be spoken")]
    Tls(#[from] rustls::Error),
}

impl PullError {
    /// Whether the caller can mend it by asking otherwise.
    pub(crate) fn is_of_the_request(&self) -> bool {
        matches!(
            self,
            Self::Address { .. }
                | Self::Clear { .. }
                | Self::NoName
                | Self::Sum { .. }
                | Self::NamelessSum
                | Self::SumLine { .. }
                | Self::Missing { .. }
                | Self::Authority { .. }
        )
    }
}
