//! One value of the metadata.

use std::fmt::{self, Display};

use crate::cursor::{CountLimit, Cursor};
use crate::error::{GgufError, Result};
use crate::limits::{ARRAY_LENGTH_MAX, STRING_BYTES_MAX};

/// Most arrays around an element.
const LEVELS_MAX: u32 = 2;

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants are the types")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// Values of one type.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants are the types of the elements")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Vec<String>),
    /// Arrays of no arrays.
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Value {
    /// Reads a value with the type before it.
    pub(crate) fn read(cursor: &mut Cursor<'_>, field: &dyn Display) -> Result<Self> {
        Ok(match cursor.u32(field)? {
            0 => Self::U8(u8::from_le_bytes(cursor.array(field)?)),
            1 => Self::I8(i8::from_le_bytes(cursor.array(field)?)),
            2 => Self::U16(u16::from_le_bytes(cursor.array(field)?)),
            3 => Self::I16(i16::from_le_bytes(cursor.array(field)?)),
            4 => Self::U32(cursor.u32(field)?),
            5 => Self::I32(i32::from_le_bytes(cursor.array(field)?)),
            6 => Self::F32(f32::from_le_bytes(cursor.array(field)?)),
            7 => Self::Bool(truth(u8::from_le_bytes(cursor.array(field)?), field)?),
            8 => Self::String(cursor.string(STRING_BYTES_MAX, field)?.to_owned()),
            9 => Self::Array(Array::read(cursor, 1, field)?),
            10 => Self::U64(cursor.u64(field)?),
            11 => Self::I64(i64::from_le_bytes(cursor.array(field)?)),
            12 => Self::F64(f64::from_le_bytes(cursor.array(field)?)),
            found => return Err(unknown(found, field)),
        })
    }
}

impl Array {
    /// Reads an array, the `level`-th from the outside, with type and length before it.
    fn read(cursor: &mut Cursor<'_>, level: u32, field: &dyn Display) -> Result<Self> {
        if level > LEVELS_MAX {
            return Err(GgufError::Nested { field: field.to_string(), limit: LEVELS_MAX });
        }
        let kind = cursor.u32(field)?;
        let limit = CountLimit { max: ARRAY_LENGTH_MAX, bytes_each: least_bytes(kind, field)? };
        let count = cursor.count(&limit, &format_args!("the number of elements of {field}"))?;
        Ok(match kind {
            0 => Self::U8(numbers(cursor, count, u8::from_le_bytes, field)?),
            1 => Self::I8(numbers(cursor, count, i8::from_le_bytes, field)?),
            2 => Self::U16(numbers(cursor, count, u16::from_le_bytes, field)?),
            3 => Self::I16(numbers(cursor, count, i16::from_le_bytes, field)?),
            4 => Self::U32(numbers(cursor, count, u32::from_le_bytes, field)?),
            5 => Self::I32(numbers(cursor, count, i32::from_le_bytes, field)?),
            6 => Self::F32(numbers(cursor, count, f32::from_le_bytes, field)?),
            7 => Self::Bool(each(count, || truth(u8::from_le_bytes(cursor.array(field)?), field))?),
            8 => Self::String(each(count, || Ok(cursor.string(STRING_BYTES_MAX, field)?.to_owned()))?),
            9 => Self::Array(each(count, || Self::read(cursor, level + 1, field))?),
            10 => Self::U64(numbers(cursor, count, u64::from_le_bytes, field)?),
            11 => Self::I64(numbers(cursor, count, i64::from_le_bytes, field)?),
            12 => Self::F64(numbers(cursor, count, f64::from_le_bytes, field)?),
            found => return Err(unknown(found, field)),
        })
    }
}

/// Bytes that an element takes at least.
fn least_bytes(kind: u32, field: &dyn Display) -> Result<u64> {
    Ok(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        // The length of a string.
        8 | 10..=12 => 8,
        // Type and length of an array.
        9 => 12,
        found => return Err(unknown(found, field)),
    })
}

fn numbers<const N: usize, T>(
    cursor: &mut Cursor<'_>,
    count: usize,
    from: fn([u8; N]) -> T,
    field: &dyn Display,
) -> Result<Vec<T>> {
    let bytes = cursor.bytes((count as u64).saturating_mul(N as u64), field)?;
    let (elements, _) = bytes.as_chunks();
    Ok(elements.iter().copied().map(from).collect())
}

/// As many elements as are known to be there.
fn each<T>(count: usize, mut read: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        elements.push(read()?);
    }
    Ok(elements)
}

fn truth(found: u8, field: &dyn Display) -> Result<bool> {
    match found {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(GgufError::Bool { field: field.to_string(), found }),
    }
}

fn unknown(found: u32, field: &dyn Display) -> GgufError {
    GgufError::ValueType { field: field.to_string(), found }
}

/// The type of a value, for messages.
pub(crate) struct TypeOf<'a>(pub(crate) &'a Value);

impl Display for TypeOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Value::U8(_) => "u8",
            Value::I8(_) => "i8",
            Value::U16(_) => "u16",
            Value::I16(_) => "i16",
            Value::U32(_) => "u32",
            Value::I32(_) => "i32",
            Value::F32(_) => "f32",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(array) => array_type(array),
            Value::U64(_) => "u64",
            Value::I64(_) => "i64",
            Value::F64(_) => "f64",
        })
    }
}

fn array_type(array: &Array) -> &'static str {
    match array {
        Array::U8(_) => "array of u8",
        Array::I8(_) => "array of i8",
        Array::U16(_) => "array of u16",
        Array::I16(_) => "array of i16",
        Array::U32(_) => "array of u32",
        Array::I32(_) => "array of i32",
        Array::F32(_) => "array of f32",
        Array::Bool(_) => "array of bool",
        Array::String(_) => "array of string",
        Array::Array(_) => "array of array",
        Array::U64(_) => "array of u64",
        Array::I64(_) => "array of i64",
        Array::F64(_) => "array of f64",
    }
}
