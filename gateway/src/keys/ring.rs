//! All keys of one file, found by their hashes.

use std::collections::HashMap;
use std::sync::Arc;

use espalier_proto::KeyHash;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::error::KeyError;
use super::file::Entry;
use super::meter::{LeftOfKey, Meter};
use crate::admission::{Claim, Client, Refusal};

/// A key, and what was used of its limits: rings that follow each other share that.
#[derive(Debug)]
struct Key {
    entry: Entry,
    meter: Arc<Mutex<Meter>>,
}

/// The keys of one file. The hash table is salted and compares in constant time, so how long a look-up takes tells nothing
/// of hashes that are there.
#[derive(Debug, Default)]
pub(super) struct Ring(HashMap<KeyHash, Arc<Key>>);

impl Ring {
    /// The ring that comes after this one: of these keys, and with what those that stay have used. A key stays if its
    /// name does.
    pub(super) fn followed_by(&self, entries: Vec<Entry>, now: Instant) -> Self {
        let meters: HashMap<&str, &Arc<Mutex<Meter>>> =
            self.0.values().map(|key| (&*key.entry.name, &key.meter)).collect();
        let key = |entry: Entry| {
            let meter = match meters.get(&*entry.name) {
                Some(&meter) => {
                    meter.lock().set_limits(&entry.limits, now);
                    Arc::clone(meter)
                }
                None => Arc::new(Mutex::new(Meter::new(&entry.limits, now))),
            };
            (entry.hash, Arc::new(Key { entry, meter }))
        };
        Self(entries.into_iter().map(key).collect())
    }

    /// Who holds the key with this hash.
    pub(super) fn find(&self, hash: &KeyHash) -> Result<Holder, KeyError> {
        self.0.get(hash).map(|key| Holder(Arc::clone(key))).ok_or(KeyError::Unknown)
    }
}

/// Who has shown a key. A request keeps its holder, with the rights that the key had then, until it ends.
#[derive(Debug, Clone)]
pub(crate) struct Holder(Arc<Key>);

impl Holder {
    /// Whose key it is.
    pub(crate) fn name(&self) -> &str {
        &self.0.entry.name
    }

    /// Whom that name belongs to.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.0.entry.tenant.as_deref()
    }

    /// The same as a number, the same at all gateways: services share what they know of texts within a tenant. 0 for none.
    pub(crate) fn tenant_number(&self) -> u64 {
        let Some(tenant) = self.tenant() else { return 0 };
        let digest: [u8; 32] = Sha256::digest(tenant).into();
        digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first).max(1))
    }

    /// The terms on which it asks for a slot, where others may have `requests_max` requests.
    pub(crate) fn claim(&self, requests_max: usize) -> Claim {
        let Entry { name, limits, .. } = &self.0.entry;
        let requests_max = limits.requests_max.unwrap_or(requests_max);
        Claim { client: Client::Named(name.clone()), weight: limits.weight, requests_max }
    }

    /// Counts a request, if there may be one.
    ///
    /// # Errors
    /// Which rate it is over, and when it is not any more.
    pub(crate) fn begin(&self) -> Result<(), Refusal> {
        self.0.meter.lock().begin(Instant::now())
    }

    /// What is left of its limits now.
    pub(crate) fn left(&self) -> LeftOfKey {
        self.0.meter.lock().left(Instant::now())
    }

    /// So many tokens were read or generated.
    pub(crate) fn charge(&self, tokens: usize) {
        self.0.meter.lock().charge(tokens, Instant::now());
    }

    /// Whether it may ask for the status of all services.
    ///
    /// # Errors
    /// [`KeyError::NoStatus`].
    pub(crate) fn check_status(&self) -> Result<(), KeyError> {
        if self.0.entry.status { Ok(()) } else { Err(KeyError::NoStatus) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_proto::ApiKey;
    use serde_json::{Value, json};

    use super::super::file::parse;
    use super::*;

    fn hash(key: &str) -> KeyHash {
        ApiKey::new(key).unwrap().hash()
    }

    /// A key that is its own name, with these limits.
    fn key(name: &str, limits: &Value) -> Value {
        let mut key = json!({"name": name, "sha256": hash(name).to_string()});
        key.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        key
    }

    fn entries(keys: &[Value]) -> Vec<Entry> {
        parse(&json!({ "keys": keys }).to_string()).unwrap()
    }

    fn ring(keys: &[Value]) -> Ring {
        Ring::default().followed_by(entries(keys), Instant::now())
    }

    #[test]
    fn a_key_is_found_by_its_hash_and_asks_in_its_name() {
        let ring = ring(&[key("a", &json!({"weight": 5, "requests_max": 2})), key("b", &json!({"status": true}))]);
        let [a, b] = ["a", "b"].map(|name| ring.find(&hash(name)).unwrap());
        let named =
            |name: &str, weight, requests_max| Claim { client: Client::Named(name.into()), weight, requests_max };
        assert_eq!((a.claim(9), b.claim(9)), (named("a", 5, 2), named("b", 1, 9)));
        assert_eq!((a.check_status(), b.check_status()), (Err(KeyError::NoStatus), Ok(())));
        assert_eq!(ring.find(&hash("c")).unwrap_err(), KeyError::Unknown);
    }

    #[test]
    fn the_next_ring_has_its_own_keys_and_what_those_that_stay_have_used() {
        let once = json!({"requests_per_minute": 1});
        let first = ring(&[key("stays", &once), key("goes", &once)]);
        let holder = first.find(&hash("stays")).unwrap();
        assert_eq!(holder.begin(), Ok(()));
        let mut rotated = key("stays", &once);
        rotated["sha256"] = json!(hash("another").to_string());
        let second = first.followed_by(entries(&[rotated, key("comes", &once)]), Instant::now());
        assert_eq!(second.0.len(), 2);
        for gone in ["stays", "goes"] {
            assert_eq!(second.find(&hash(gone)).unwrap_err(), KeyError::Unknown);
        }
        assert!(second.find(&hash("another")).unwrap().begin().is_err(), "another key of one name shares its limits");
        assert_eq!(second.find(&hash("comes")).unwrap().begin(), Ok(()));
        assert!(holder.begin().is_err(), "who came in by the first ring uses the same");
    }
}
