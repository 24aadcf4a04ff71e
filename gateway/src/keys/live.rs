//! The keys that hold at present: a file is read again when it changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use espalier_proto::{API_KEY_HEADER, ApiKey};
use espalier_service_kit::chain;
use http::HeaderMap;
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::error::{KeyError, KeysError};
use super::file::{parse, read};
use super::ring::{Holder, Ring};

/// How often the file is looked at: a key that is removed is refused within five seconds, so this leaves two to read a
/// file of the greatest length on a machine that is busy.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);

/// What a look at the file came to: the hash of its text, or why there is none. Times of change are not gone by: not all
/// file systems tell of two changes in one second, and a file that is put in the place of another may be older.
type Seen = Result<[u8; 32], String>;

/// The keys of a file, at all times.
#[derive(Debug)]
pub(crate) struct Keys {
    path: PathBuf,
    ring: RwLock<Arc<Ring>>,
    /// The text that the first ring was read from.
    first_seen: [u8; 32],
}

impl Keys {
    /// Reads a file.
    ///
    /// # Errors
    /// One that cannot be read, is too long, or holds something else.
    pub(crate) fn read(path: &Path) -> Result<Self, KeysError> {
        let text = read(path)?;
        let ring = next_ring(&Ring::default(), path, &text)?;
        Ok(Self { path: path.to_owned(), ring: RwLock::new(Arc::new(ring)), first_seen: digest(&text) })
    }

    /// Who shows a key that holds at present.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], whatever is wrong with the key.
    pub(crate) fn holder(&self, headers: &HeaderMap) -> Result<Holder, KeyError> {
        let shown = headers.get(API_KEY_HEADER).and_then(|value| ApiKey::from_header(value.as_bytes()));
        let hash = shown.ok_or(KeyError::Unknown)?.hash();
        self.ring.read().find(&hash)
    }

    /// Reads the file again whenever it changes, until the future is dropped. While it is faulty, the keys that were read
    /// before hold.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut seen = Ok(self.first_seen);
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let (keys, before) = (Arc::clone(&self), seen.clone());
            match spawn_blocking(move || keys.look(&before)).await {
                Ok(now) => seen = now,
                Err(error) => tracing::error!(%error, "a look at the file of API keys failed"),
            }
        }
    }

    /// Looks at the file, and puts other keys in place if it has changed since it was `seen`.
    fn look(&self, seen: &Seen) -> Seen {
        let text = read(&self.path);
        let now = text.as_ref().map(|text| digest(text)).map_err(|error| chain(error));
        if now == *seen {
            return now;
        }
        match text.and_then(|text| self.replace(&text)) {
            Ok(keys) => tracing::info!(keys, "the API keys were read again"),
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "the file of API keys is faulty; the keys read before still hold"
                );
            }
        }
        now
    }

    /// Puts the keys of a text in place, all at once; how many they are.
    fn replace(&self, text: &str) -> Result<usize, KeysError> {
        let before = Arc::clone(&self.ring.read());
        let ring = next_ring(&before, &self.path, text)?;
        let keys = ring.len();
        *self.ring.write() = Arc::new(ring);
        Ok(keys)
    }
}

fn next_ring(before: &Ring, path: &Path, text: &str) -> Result<Ring, KeysError> {
    let entries = parse(text).map_err(|source| KeysError::Parse { path: path.to_owned(), source })?;
    Ok(before.followed_by(entries, Instant::now()))
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn file_of(names: &[&str]) -> String {
        let key = |name: &&str| json!({"name": name, "sha256": ApiKey::new(name).unwrap().hash().to_string()});
        json!({"keys": names.iter().map(key).collect::<Vec<_>>()}).to_string()
    }

    fn headers(value: &str) -> HeaderMap {
        [(http::header::AUTHORIZATION, value.parse().unwrap())].into_iter().collect()
    }

    fn is_let_in(keys: &Keys, name: &str) -> bool {
        keys.holder(&headers(&format!("Bearer {name}"))).is_ok()
    }

    #[test]
    fn a_file_is_swapped_whole_and_a_faulty_one_changes_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        write(&file_of(&["a", "b"]));
        let keys = Keys::read(file.path()).unwrap();
        let first = Ok(keys.first_seen);
        assert_eq!(keys.look(&first), first);

        write(&file_of(&["b", "c"]));
        let second = keys.look(&first);
        assert_ne!(second, first);
        assert_eq!(["a", "b", "c"].map(|name| is_let_in(&keys, name)), [false, true, true]);

        write(r#"{"keys": [{"name": "d"}]}"#);
        let faulty = keys.look(&second);
        assert_ne!(faulty, second, "it is not read, and told of, again and again");
        assert_eq!(["b", "c"].map(|name| is_let_in(&keys, name)), [true, true]);
        std::fs::remove_file(file.path()).unwrap();
        let missing = keys.look(&faulty);
        assert!(missing.as_ref().is_err_and(|error| error.starts_with("cannot read ")), "{missing:?}");
        assert!(is_let_in(&keys, "b"));

        write(&file_of(&["d"]));
        assert!(keys.look(&missing).is_ok());
        assert_eq!(["b", "d"].map(|name| is_let_in(&keys, name)), [false, true]);
    }

    #[test]
    fn whatever_is_wrong_with_a_key_the_words_are_the_same_and_hold_nothing_of_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), file_of(&["right"])).unwrap();
        let keys = Keys::read(file.path()).unwrap();
        assert!(keys.holder(&headers("Bearer right")).is_ok());
        let wrong = ["Bearer wrong", "Bearer ", "Basic right", "right", "Bearer right left"].map(headers);
        for headers in wrong.iter().chain([&HeaderMap::new()]) {
            let error = keys.holder(headers).unwrap_err();
            assert_eq!(
                error.to_string(),
                "no valid API key: `authorization` must be `Bearer` and a key of this gateway"
            );
        }
        assert!(!format!("{keys:?}").contains("right left"));
    }
}
