//! Which files make a checkpoint.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::source::is_plain;

/// Most files of weights.
const SHARDS_MAX: usize = 1 << 12;

/// What all weights are in, where they are in one file.
pub(crate) const SINGLE: &str = "model.safetensors";

/// Which file has which weights, where there are several.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Bytes that an index may have.
pub(crate) const INDEX_BYTES_MAX: u64 = 64 << 20;

/// A small file of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Small {
    pub(crate) name: &'static str,
    /// Whether nothing works without it.
    pub(crate) is_needed: bool,
    pub(crate) bytes_max: u64,
}

/// The small files, with the most bytes that a service would read of them.
pub(crate) const SMALL: [Small; 6] = [
    Small { name: "config.json", is_needed: true, bytes_max: 4 << 20 },
    Small { name: "tokenizer.json", is_needed: true, bytes_max: 256 << 20 },
    Small { name: "tokenizer_config.json", is_needed: false, bytes_max: 16 << 20 },
    Small { name: "chat_template.jinja", is_needed: false, bytes_max: 1 << 20 },
    Small { name: "generation_config.json", is_needed: false, bytes_max: 4 << 20 },
    Small { name: "special_tokens_map.json", is_needed: false, bytes_max: 4 << 20 },
];

#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

/// The files of weights that an index names, in order.
///
/// # Errors
/// In words, what is wrong with it.
pub(crate) fn shards(index: &str) -> Result<BTreeSet<String>, String> {
    let index: Index = serde_json::from_str(index).map_err(|error| error.to_string())?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    if names.is_empty() || names.len() > SHARDS_MAX {
        return Err(format!("it names {} files, and 1 to {SHARDS_MAX} are expected", names.len()));
    }
    match names.iter().find(|name| !is_plain(name)) {
        Some(name) => Err(format!("`{name}` is not the plain name of a file")),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_index_names_files_once_each_and_none_in_other_folders() {
        let index =
            r#"{"metadata": {}, "weight_map": {"a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors"}}"#;
        assert_eq!(shards(index).unwrap().into_iter().collect::<Vec<_>>(), ["1.safetensors", "2.safetensors"]);
        let away = shards(r#"{"weight_map": {"a": "../../.bashrc"}}"#).unwrap_err();
        assert_eq!(away, "`../../.bashrc` is not the plain name of a file");
        assert_eq!(shards(r#"{"weight_map": {}}"#).unwrap_err(), "it names 0 files, and 1 to 4096 are expected");
        assert!(shards("[]").is_err());
    }
}
