//! Fields of `config.json`.

use serde_json::{Map, Value};

/// Fields by their names.
pub(super) type Fields = Map<String, Value>;

pub(super) fn fields<const N: usize>(fields: [(&str, Value); N]) -> Fields {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
