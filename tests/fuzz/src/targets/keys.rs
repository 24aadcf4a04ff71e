//! API keys: the file of a gateway, and what clients show.

use espalier_gateway::count_keys;
use espalier_proto::{ApiKey, KeyHash, SequenceId};

use crate::target::{Target, refused};

pub(crate) const FILE: Target = Target {
    name: "key-file",
    about: "A text of API keys is refused, or holds no more keys than a file may.",
    run: |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        match count_keys(text) {
            Err(refusal) => refused(&refusal),
            Ok(keys) => {
                assert!(keys <= espalier_gateway::KEYS_MAX, "{keys} keys");
                true
            }
        }
    },
    seeds: || {
        let hash = |digit: &str| digit.repeat(64);
        let full = format!(
            r#"{{"keys": [{{"name": "team a", "sha256": "{}", "tenant": "sales", "requests_per_minute": 60,
            "tokens_per_minute": 9000, "requests_max": 4, "weight": 3, "status": true}},
            {{"name": "b", "sha256": "{}"}}]}}"#,
            hash("a"),
            hash("1")
        );
        vec![full.into_bytes(), br#"{"keys": []}"#.to_vec()]
    },
    tries: 6000,
    memory_max: 1 << 16,
};

pub(crate) const HEADER: Target = Target {
    name: "key-header",
    about: "What a client shows as its key, hash or name is refused, or is the same when it is shown again.",
    run: |bytes| {
        let key = ApiKey::from_header(bytes);
        if let Some(key) = &key {
            let again = ApiKey::from_header(key.to_header().as_bytes());
            assert_eq!(again.as_ref().map(ApiKey::reveal), Some(key.reveal()));
            assert_eq!(key.hash().to_string().parse(), Ok(key.hash()));
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        if let Ok(hash) = text.parse::<KeyHash>() {
            assert_eq!(hash.to_string(), text.to_lowercase());
        }
        if let Ok(id) = SequenceId::new(text) {
            assert_eq!(id.as_str(), text);
        }
        key.is_some()
    },
    seeds: || ["Bearer esp_7".to_owned(), "a1".repeat(32), "request-7_b".to_owned()].map(String::into_bytes).into(),
    tries: 6000,
    memory_max: 1 << 16,
};
