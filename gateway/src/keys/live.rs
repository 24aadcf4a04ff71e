//! The keys that hold at present: a file is read again when it changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use espalier_proto::{API_KEY_HEADER, ApiKey};
use espalier_service_kit::{Followed, Seen, follow};
use http::HeaderMap;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::error::{KeyError, KeysError};
use super::file::{parse, read};
use super::ring::{Holder, Ring};

/// The keys of a file, at all times.
#[derive(Debug)]
pub(crate) struct Keys {
    path: PathBuf,
    ring: RwLock<Arc<Ring>>,
    /// What the first ring was read from.
    first: String,
}

impl Keys {
    /// Reads a file.
    ///
    /// # Errors
    /// One that cannot be read, is too long, or holds something else.
    pub(crate) fn read(path: &Path) -> Result<Self, KeysError> {
        let text = read(path)?;
        let ring = next_ring(&Ring::default(), path, &text)?;
        Ok(Self { path: path.to_owned(), ring: RwLock::new(Arc::new(ring)), first: text })
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

    /// Reads the file again whenever it changes, until nobody needs the keys.
    pub(crate) fn watch(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        follow(Arc::downgrade(self), Seen::first(self.first.clone()))
    }
}

impl Followed for Keys {
    type Contents = String;
    type Error = KeysError;
    const WHAT: &'static str = "the API keys";

    fn read(&self) -> Result<String, KeysError> {
        read(&self.path)
    }

    fn replace(&self, text: &String) -> Result<(), KeysError> {
        let before = Arc::clone(&self.ring.read());
        *self.ring.write() = Arc::new(next_ring(&before, &self.path, text)?);
        Ok(())
    }
}

fn next_ring(before: &Ring, path: &Path, text: &str) -> Result<Ring, KeysError> {
    let entries = parse(text).map_err(|source| KeysError::Parse { path: path.to_owned(), source })?;
    Ok(before.followed_by(entries, Instant::now()))
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
        let mut seen = Seen::first(keys.first.clone());
        let mut after = |change: &dyn Fn()| {
            change();
            seen.look(&keys);
            ["a", "b", "c", "d"].map(|name| is_let_in(&keys, name))
        };
        assert_eq!(after(&|| ()), [true, true, false, false]);
        assert_eq!(after(&|| write(&file_of(&["b", "c"]))), [false, true, true, false]);
        assert_eq!(after(&|| write(r#"{"keys": [{"name": "d"}]}"#)), [false, true, true, false]);
        assert_eq!(after(&|| std::fs::remove_file(file.path()).unwrap()), [false, true, true, false]);
        assert_eq!(after(&|| write(&file_of(&["d"]))), [false, false, false, true]);
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
