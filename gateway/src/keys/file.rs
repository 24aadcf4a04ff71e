//! The file of keys, read into types that can only hold valid values.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;

use espalier_proto::{KeyHash, is_client_name};
use serde::Deserialize;

use super::error::{KEYS_BYTES_MAX, KEYS_MAX, KeysError, KeysParseError};
use crate::admission::{REQUESTS_LIMIT, WEIGHT_LIMIT};

/// The most requests a minute that a key may be limited to.
const REQUESTS_PER_MINUTE_LIMIT: u64 = 1_000_000;

/// The most tokens a minute that a key may be limited to.
const TOKENS_PER_MINUTE_LIMIT: u64 = 1_000_000_000;

/// One key, as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Whose key it is; slots are shared between names.
    pub(super) name: Box<str>,
    /// Whom the name belongs to: what is known of prompts is shared within a tenant alone.
    pub(super) tenant: Option<Box<str>>,
    pub(super) hash: KeyHash,
    pub(super) limits: KeyLimits,
    /// Whether it may ask for the status of all services.
    pub(super) status: bool,
}

/// What a key may use; without a number, as much as there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyLimits {
    pub(super) requests_per_minute: Option<NonZeroU32>,
    /// Of prompts and answers together.
    pub(super) tokens_per_minute: Option<NonZeroU32>,
    /// Requests served or waiting.
    pub(super) requests_max: Option<usize>,
    /// How many slots in a row it is given while others wait.
    pub(super) weight: usize,
}

/// Reads what a file of at most [`KEYS_BYTES_MAX`] holds.
pub(super) fn read(path: &Path) -> Result<String, KeysError> {
    let unreadable = |source| KeysError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(KEYS_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > KEYS_BYTES_MAX {
        return Err(KeysError::Long { path: path.to_owned() });
    }
    Ok(text)
}

/// How many keys there are in a text as a file of keys has it.
///
/// # Errors
/// What is wrong with the text.
pub fn count_keys(text: &str) -> Result<usize, KeysParseError> {
    parse(text).map(|entries| entries.len())
}

/// Reads a JSON object with a list of `keys`.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, KeysParseError> {
    let Written { keys } = serde_json::from_str(text)?;
    if keys.len() > KEYS_MAX {
        return Err(KeysParseError::Many { keys: keys.len() });
    }
    let entries = keys.into_iter().enumerate().map(|(i, key)| key.read(i + 1)).collect::<Result<Vec<_>, _>>()?;
    check_distinct(&entries)?;
    Ok(entries)
}

fn check_distinct(entries: &[Entry]) -> Result<(), KeysParseError> {
    let (mut names, mut hashes) = (HashSet::new(), HashMap::new());
    for entry in entries {
        let name = || entry.name.to_string();
        if !names.insert(&entry.name) {
            return Err(KeysParseError::SameName { name: name() });
        }
        if let Some(first) = hashes.insert(entry.hash, &entry.name) {
            return Err(KeysParseError::SameHash { first: first.to_string(), second: name() });
        }
    }
    Ok(())
}

/// What may be written in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    keys: Vec<WrittenKey>,
}

/// What may be written of a key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenKey {
    name: String,
    sha256: String,
    tenant: Option<String>,
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    requests_max: Option<u64>,
    weight: Option<u64>,
    #[serde(default)]
    status: bool,
}

impl WrittenKey {
    fn read(self, number: usize) -> Result<Entry, KeysParseError> {
        let name = checked_name("name", &self.name, number)?;
        let tenant = self.tenant.as_deref().map(|tenant| checked_name("tenant", tenant, number)).transpose()?;
        let hash = self.sha256.parse();
        let hash = hash.map_err(|source| KeysParseError::Hash { name: name.to_string(), source })?;
        let within = |field, value, limit| within(&name, field, value, limit);
        let rate = |value: Option<u64>| value.and_then(|value| NonZeroU32::new(u32::try_from(value).ok()?));
        let limits = KeyLimits {
            requests_per_minute: rate(within(
                "requests_per_minute",
                self.requests_per_minute,
                REQUESTS_PER_MINUTE_LIMIT,
            )?),
            tokens_per_minute: rate(within("tokens_per_minute", self.tokens_per_minute, TOKENS_PER_MINUTE_LIMIT)?),
            requests_max: within("requests_max", self.requests_max, REQUESTS_LIMIT as u64)?.map(|max| max as usize),
            weight: within("weight", self.weight, WEIGHT_LIMIT as u64)?.map_or(1, |weight| weight as usize),
        };
        Ok(Entry { name, tenant, hash, limits, status: self.status })
    }
}

fn checked_name(field: &'static str, name: &str, number: usize) -> Result<Box<str>, KeysParseError> {
    if !is_client_name(name) {
        return Err(KeysParseError::Name { field, number, bytes: name.len() });
    }
    Ok(name.into())
}

/// A limit that is between 1 and what may be given, if it is given.
fn within(name: &str, field: &'static str, value: Option<u64>, limit: u64) -> Result<Option<u64>, KeysParseError> {
    match value {
        Some(value) if !(1..=limit).contains(&value) => {
            Err(KeysParseError::Range { name: name.to_owned(), field, value, limit })
        }
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use espalier_proto::ApiKey;
    use espalier_service_kit::chain;
    use serde_json::{Value, json};

    use super::*;

    fn hash(text: &str) -> String {
        ApiKey::new(text).unwrap().hash().to_string()
    }

    fn parsed(keys: &Value) -> Result<Vec<Entry>, String> {
        parse(&json!({ "keys": keys }).to_string()).map_err(|error| chain(&error))
    }

    #[test]
    fn a_key_has_the_limits_that_are_written_and_no_others() {
        let full = json!({
            "name": "team a", "sha256": hash("one"), "tenant": "sales", "requests_per_minute": 60,
            "tokens_per_minute": 9000, "requests_max": 4, "weight": 3, "status": true,
        });
        let entries = parsed(&json!([full, {"name": "b", "sha256": hash("two")}])).unwrap();
        let limits = |requests, tokens, requests_max, weight| KeyLimits {
            requests_per_minute: NonZeroU32::new(requests),
            tokens_per_minute: NonZeroU32::new(tokens),
            requests_max,
            weight,
        };
        let entry = |name: &str, key: &str, limits| {
            let hash = ApiKey::new(key).unwrap().hash();
            Entry { name: name.into(), tenant: None, hash, limits, status: false }
        };
        let first = entry("team a", "one", limits(60, 9000, Some(4), 3));
        let first = Entry { tenant: Some("sales".into()), status: true, ..first };
        assert_eq!(entries, [first, entry("b", "two", limits(0, 0, None, 1))]);
        assert_eq!(parsed(&json!([])), Ok(vec![]), "nobody may ask");
    }

    #[test]
    fn what_is_wrong_is_quoted_with_its_limit() {
        let (one, two) = (hash("one"), hash("two"));
        let key = |field: &str, value: Value| {
            let mut key = json!({"name": "a", "sha256": one});
            key[field] = value;
            json!([key])
        };
        let cases = [
            (key("name", json!("")), "the name of key 1 has 0 bytes; it must be 1 to 64 printable ASCII characters"),
            (key("tenant", json!("a\nb")), "the tenant of key 1 has 3 bytes; it must be 1 to 64 printable ASCII"),
            (key("sha256", json!("beef")), "the `sha256` of key `a`: a hash of 4 characters, 0 of them no hexadecimal"),
            (
                key("requests_per_minute", json!(0)),
                "`requests_per_minute` of key `a` is 0, which is not between 1 and 1000000",
            ),
            (
                key("tokens_per_minute", json!(2_000_000_000)),
                "`tokens_per_minute` of key `a` is 2000000000, which is not",
            ),
            (
                key("requests_max", json!(65_537)),
                "`requests_max` of key `a` is 65537, which is not between 1 and 65536",
            ),
            (key("weight", json!(101)), "`weight` of key `a` is 101, which is not between 1 and 100"),
            (key("weigth", json!(1)), "unknown field `weigth`"),
            (key("status", json!(1)), "invalid type: integer `1`, expected a boolean"),
            (key("weight", json!(-1)), "invalid value: integer `-1`, expected u64"),
            (json!([{"name": "a"}]), "missing field `sha256`"),
            (json!([{"name": "a", "sha256": one}, {"name": "a", "sha256": two}]), "two keys have the name `a`"),
            (
                json!([{"name": "a", "sha256": one}, {"name": "b", "sha256": one}]),
                "keys `a` and `b` have the same `sha256`",
            ),
        ];
        for (keys, words) in cases {
            let error = parsed(&keys).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        for text in ["", "[]", "{}", r#"{"keys": [], "more": 1}"#, r#"{"keys": [], "keys": []}"#] {
            assert!(matches!(parse(text), Err(KeysParseError::Json(_))), "{text}");
        }
    }

    #[test]
    fn a_key_that_stands_where_its_hash_should_is_not_told() {
        let secret = ApiKey::from_random([7; 32]);
        let error = parsed(&json!([{"name": "a", "sha256": secret.reveal()}])).unwrap_err();
        assert!(!error.contains("0707"), "{error}");
    }

    #[test]
    fn files_and_lists_have_their_limits() {
        let keys = |count: usize| -> Value {
            (0..count).map(|i| json!({"name": i.to_string(), "sha256": format!("{i:064x}")})).collect()
        };
        assert_eq!(parsed(&keys(KEYS_MAX)).unwrap().len(), KEYS_MAX);
        assert_eq!(parsed(&keys(KEYS_MAX + 1)).unwrap_err(), "there are 10001 keys, and the limit is 10000");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let spaces = " ".repeat(KEYS_BYTES_MAX as usize);
        file.write_all(spaces.as_bytes()).unwrap();
        assert_eq!(read(file.path()).unwrap(), spaces);
        file.write_all(b" ").unwrap();
        let error = read(file.path()).unwrap_err().to_string();
        assert_eq!(error, format!("{} is longer than 4194304 bytes", file.path().display()));
        assert!(read(Path::new("/nowhere.json")).unwrap_err().to_string().starts_with("cannot read /nowhere.json"));
    }
}
