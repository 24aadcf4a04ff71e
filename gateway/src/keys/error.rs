//! Why a file of keys cannot be used, and why a key does not do.

use std::path::PathBuf;

use espalier_proto::{CLIENT_NAME_BYTES_MAX, Fault, FaultKind, KeyHashError, Party};
use thiserror::Error;

/// The longest file of API keys, in bytes.
pub const KEYS_BYTES_MAX: u64 = 4 << 20;

/// The most keys that a file may list.
pub const KEYS_MAX: usize = 10_000;

/// Why a file of API keys cannot be used.
#[derive(Debug, Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is too long.
    #[error("{} is longer than {KEYS_BYTES_MAX} bytes", path.display())]
    Long {
        /// The file.
        path: PathBuf,
    },
    /// The file does not hold what it should.
    #[error("{} holds no API keys", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: KeysParseError,
    },
}

/// Why a text is none of API keys.
#[derive(Debug, Error)]
pub enum KeysParseError {
    /// It is no JSON, or of another shape.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// There are too many.
    #[error("there are {keys} keys, and the limit is {KEYS_MAX}")]
    Many {
        /// How many there are.
        keys: usize,
    },
    /// A name is none.
    #[error(
        "the {field} of key {number} has {bytes} bytes; it must be 1 to {CLIENT_NAME_BYTES_MAX} printable ASCII characters"
    )]
    Name {
        /// Which name.
        field: &'static str,
        /// Which key, counted from 1.
        number: usize,
        /// The name's length.
        bytes: usize,
    },
    /// Two keys have one name.
    #[error("two keys have the name `{name}`")]
    SameName {
        /// Their name.
        name: String,
    },
    /// A hash is none.
    #[error("the `sha256` of key `{name}`")]
    Hash {
        /// The key's name.
        name: String,
        /// Why.
        source: KeyHashError,
    },
    /// Two names have one key.
    #[error("keys `{first}` and `{second}` have the same `sha256`")]
    SameHash {
        /// The one that comes first.
        first: String,
        /// The other one.
        second: String,
    },
    /// A limit is out of range.
    #[error("`{field}` of key `{name}` is {value}, which is not between 1 and {limit}")]
    Range {
        /// The key's name.
        name: String,
        /// Which limit.
        field: &'static str,
        /// What was given.
        value: u64,
        /// The most that may be given.
        limit: u64,
    },
}

/// Why a key does not do. Who has none learns nothing else from it: no key, a text that is none and a key that is not known
/// are one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No key that is known here was shown.
    #[error("no valid API key: `authorization` must be `Bearer` and a key of this gateway")]
    Unknown,
    /// The key may ask for answers, but not for the status of all services.
    #[error("this API key may not ask what the services do")]
    NoStatus,
}

impl From<KeyError> for Fault {
    fn from(error: KeyError) -> Self {
        let kind = match error {
            KeyError::Unknown => FaultKind::Unauthenticated,
            KeyError::NoStatus => FaultKind::PermissionDenied,
        };
        Self::new(Party::Client, kind, error)
    }
}
