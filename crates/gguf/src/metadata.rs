//! The metadata of a file, by key.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::cursor::{CountLimit, Cursor};
use crate::error::{GgufError, Result};
use crate::limits::KEY_BYTES_MAX;
use crate::value::{Array, TypeOf, Value};

/// Bytes that an entry takes at least: the length of its key, its type, and a byte.
const ENTRY_BYTES_MIN: u64 = 8 + 4 + 1;

/// Typed values by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata(BTreeMap<String, Value>);

impl Metadata {
    /// What the number of entries is held against.
    pub(crate) fn limit(max: u64) -> CountLimit {
        CountLimit { max, bytes_each: ENTRY_BYTES_MIN }
    }

    /// Reads so many entries.
    pub(crate) fn read(cursor: &mut Cursor<'_>, entries: usize) -> Result<Self> {
        let mut by_key = BTreeMap::new();
        for index in 0..entries {
            let key = cursor.string(KEY_BYTES_MAX, &format_args!("the key of metadata entry {index}"))?;
            let value = Value::read(cursor, &format_args!("metadata entry {key:?}"))?;
            match by_key.entry(key.to_owned()) {
                Entry::Vacant(place) => place.insert(value),
                Entry::Occupied(place) => return Err(GgufError::DuplicateKey { key: place.key().clone() }),
            };
        }
        Ok(Self(by_key))
    }

    /// All entries, in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// A value of whatever type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// A value that must be there.
    ///
    /// # Errors
    /// No such entry, or one of another type.
    pub fn required<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.optional(key)?.ok_or_else(|| GgufError::MissingKey { key: key.to_owned() })
    }

    /// A value that may be there.
    ///
    /// # Errors
    /// An entry of another type.
    pub fn optional<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let wrong =
            |value| GgufError::WrongType { key: key.to_owned(), wanted: T::NAME, found: TypeOf(value).to_string() };
        self.get(key).map(|value| T::from_value(value).ok_or_else(|| wrong(value))).transpose()
    }
}

impl FromIterator<(String, Value)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl IntoIterator for Metadata {
    type Item = (String, Value);
    type IntoIter = std::collections::btree_map::IntoIter<String, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Extend<(String, Value)> for Metadata {
    fn extend<I: IntoIterator<Item = (String, Value)>>(&mut self, entries: I) {
        self.0.extend(entries);
    }
}

/// What a value of the metadata can be read as: its own type, a slice of an array's elements, or, for any integer that
/// is not negative, `usize`.
pub trait FromValue<'a>: Sized {
    /// What messages call the type.
    const NAME: &'static str;

    /// The value, if it is of this type.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! from_value {
    ($($type:ty, $variant:ident, $name:literal;)*) => {$(
        impl FromValue<'_> for $type {
            const NAME: &'static str = $name;

            fn from_value(value: &Value) -> Option<Self> {
                if let Value::$variant(value) = value { Some(*value) } else { None }
            }
        }

        impl<'a> FromValue<'a> for &'a [$type] {
            const NAME: &'static str = concat!("array of ", $name);

            fn from_value(value: &'a Value) -> Option<Self> {
                if let Value::Array(Array::$variant(elements)) = value { Some(elements) } else { None }
            }
        }
    )*};
}

from_value! {
    u8, U8, "u8";
    i8, I8, "i8";
    u16, U16, "u16";
    i16, I16, "i16";
    u32, U32, "u32";
    i32, I32, "i32";
    u64, U64, "u64";
    i64, I64, "i64";
    f32, F32, "f32";
    f64, F64, "f64";
    bool, Bool, "bool";
}

impl<'a> FromValue<'a> for &'a str {
    const NAME: &'static str = "string";

    fn from_value(value: &'a Value) -> Option<Self> {
        if let Value::String(text) = value { Some(text) } else { None }
    }
}

impl<'a> FromValue<'a> for &'a [String] {
    const NAME: &'static str = "array of string";

    fn from_value(value: &'a Value) -> Option<Self> {
        if let Value::Array(Array::String(texts)) = value { Some(texts) } else { None }
    }
}

impl<'a> FromValue<'a> for &'a [Array] {
    const NAME: &'static str = "array of array";

    fn from_value(value: &'a Value) -> Option<Self> {
        if let Value::Array(Array::Array(arrays)) = value { Some(arrays) } else { None }
    }
}

impl FromValue<'_> for usize {
    const NAME: &'static str = "an integer from 0 on";

    fn from_value(value: &Value) -> Option<Self> {
        match *value {
            Value::U8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::U32(value) => value.try_into().ok(),
            Value::U64(value) => value.try_into().ok(),
            Value::I8(value) => value.try_into().ok(),
            Value::I16(value) => value.try_into().ok(),
            Value::I32(value) => value.try_into().ok(),
            Value::I64(value) => value.try_into().ok(),
            _ => None,
        }
    }
}
