//! Whether two tokenizers speak of the same tokens.

use std::collections::HashMap;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The part of `tokenizer.json` that, with the vocabulary, decides what a token means.
#[derive(Deserialize)]
struct TokenizerFile {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    merges: Vec<Merge>,
}

/// A merge as it is written now, or as one text with a space between until 2024.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Joined(String),
}

impl Merge {
    fn pair(&self) -> (&str, &str) {
        match self {
            Self::Pair(left, right) => (left, right),
            Self::Joined(both) => both.split_once(' ').unwrap_or((both, "")),
        }
    }
}

/// SHA-256, in hexadecimal, over the vocabulary in order of ids and the merges in order of rank.
///
/// How the file is formatted, and how far the embedding is padded, make no difference.
pub(crate) fn fingerprint(vocabulary: &HashMap<String, u32>, tokenizer_json: &[u8]) -> Result<String, String> {
    let file: TokenizerFile = serde_json::from_slice(tokenizer_json).map_err(|fault| fault.to_string())?;
    let mut entries: Vec<(u32, &str)> = vocabulary.iter().map(|(text, &id)| (id, text.as_str())).collect();
    entries.sort_unstable();
    let mut hasher = Sha256::new();
    for (id, text) in entries {
        hasher.update(id.to_le_bytes());
        update_text(&mut hasher, text);
    }
    // No token has this id, so the vocabulary's end cannot be mistaken for an entry.
    hasher.update(u32::MAX.to_le_bytes());
    for (left, right) in file.model.merges.iter().map(Merge::pair) {
        update_text(&mut hasher, left);
        update_text(&mut hasher, right);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Length first, so that no two lists of texts run together alike.
fn update_text(hasher: &mut Sha256, text: &str) {
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn print(vocabulary: &[(&str, u32)], json: &str) -> String {
        let vocabulary = vocabulary.iter().map(|&(text, id)| (text.to_owned(), id)).collect();
        fingerprint(&vocabulary, json.as_bytes()).unwrap()
    }

    const VOCABULARY: [(&str, u32); 3] = [("a", 0), ("b", 1), ("ab", 2)];
    const MERGES: &str = r#"{"model": {"merges": [["a", "b"]]}}"#;

    #[test]
    fn both_notations_of_merges_are_the_same() {
        let joined = r#"{ "version": "1.0", "model": { "merges": ["a b"] }, "padding": {"length": 8} }"#;
        assert_eq!(print(&VOCABULARY, joined), print(&VOCABULARY, MERGES));
    }

    #[test]
    fn every_difference_of_meaning_shows() {
        let base = print(&VOCABULARY, MERGES);
        let swapped = [("b", 0), ("a", 1), ("ab", 2)];
        let longer = [("a", 0), ("b", 1), ("ab", 2), ("c", 3)];
        assert_ne!(print(&swapped, MERGES), base);
        assert_ne!(print(&longer, MERGES), base);
        assert_ne!(print(&VOCABULARY, r#"{"model": {"merges": [["b", "a"]]}}"#), base);
        assert_ne!(print(&VOCABULARY, r#"{"model": {}}"#), base);
    }
}
