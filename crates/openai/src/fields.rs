//! The fields of a JSON object, taken one by one: what is left over is not understood.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::RequestError;

/// The fields that have not been taken yet, and where the object stands.
pub(crate) struct Fields {
    left: Map<String, Value>,
    /// `a.b.` before the names of fields; empty at the top.
    prefix: String,
}

impl Fields {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, RequestError> {
        let left = serde_json::from_slice(body).map_err(RequestError::Json)?;
        Ok(Self { left, prefix: String::new() })
    }

    /// The fields of an object that stands under `name`.
    pub(crate) fn of(left: Map<String, Value>, name: &str) -> Self {
        Self { left, prefix: format!("{name}.") }
    }

    /// The name of a field, with where it stands.
    pub(crate) fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Whether a field is there, and not null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(|value| !value.is_null())
    }

    /// Takes a field, if it is there and not null.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, RequestError> {
        match self.left.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let kind = |source| RequestError::Kind { field: self.named(name), source };
                serde_json::from_value(value).map(Some).map_err(kind)
            }
        }
    }

    /// Takes a field that must be there.
    pub(crate) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, RequestError> {
        self.take(name)?.ok_or_else(|| RequestError::Missing { field: self.named(name) })
    }

    /// Takes the fields of an object within this one, if it is there.
    pub(crate) fn within(&mut self, name: &str) -> Result<Option<Self>, RequestError> {
        let named = self.named(name);
        Ok(self.take(name)?.map(|left| Self::of(left, &named)))
    }

    /// Takes the fields of an object within this one that must be there.
    pub(crate) fn need_within(&mut self, name: &str) -> Result<Self, RequestError> {
        self.within(name)?.ok_or_else(|| RequestError::Missing { field: self.named(name) })
    }

    /// Takes a field that must be there, and of which only one value, written as JSON, can be had.
    pub(crate) fn need_only(&mut self, name: &str, supported: &'static str) -> Result<(), RequestError> {
        match self.has(name) {
            true => self.only(name, supported),
            false => Err(RequestError::Missing { field: self.named(name) }),
        }
    }

    /// Takes a field of which only one value, written as JSON, can be had, or its absence.
    pub(crate) fn only(&mut self, name: &str, supported: &'static str) -> Result<(), RequestError> {
        match self.left.remove(name) {
            None | Some(Value::Null) => Ok(()),
            Some(found) if serde_json::from_str::<Value>(supported).is_ok_and(|usual| usual == found) => Ok(()),
            Some(found) => {
                Err(RequestError::Unsupported { field: self.named(name), found: shortened(&found), supported })
            }
        }
    }

    /// Nothing may be left but nulls.
    pub(crate) fn end(self) -> Result<(), RequestError> {
        match self.left.iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => Err(RequestError::Unknown { field: self.named(name) }),
            None => Ok(()),
        }
    }
}

/// A value in so few words that an error can quote it.
fn shortened(value: &Value) -> String {
    const MOST: usize = 80;
    let whole = value.to_string();
    match whole.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}
