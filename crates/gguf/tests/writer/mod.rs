//! GGUF files for tests, right ones and wrong ones: each part is a function from values to bytes.
#![allow(dead_code)]

use espalier_gguf::{Array, Value};

pub(crate) const U8: u32 = 0;
pub(crate) const U32: u32 = 4;
pub(crate) const BOOL: u32 = 7;
pub(crate) const STRING: u32 = 8;
pub(crate) const ARRAY: u32 = 9;

pub(crate) const F32: u32 = 0;
pub(crate) const Q4_0: u32 = 2;

/// Length and bytes.
pub(crate) fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// A metadata entry of this type, whose value has these bytes.
pub(crate) fn raw_entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&string(key), &kind.to_le_bytes()[..], value].concat()
}

/// A metadata entry.
pub(crate) fn entry(key: &str, value: &Value) -> Vec<u8> {
    let (kind, bytes) = encode(value);
    raw_entry(key, kind, &bytes)
}

/// The listing of a tensor; its dimensions the fastest first.
pub(crate) fn listing(name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let sizes = dimensions.iter().flat_map(|size| size.to_le_bytes());
    let count = (dimensions.len() as u32).to_le_bytes();
    let sizes: Vec<u8> = count.into_iter().chain(sizes).collect();
    [&string(name), &sizes, &kind.to_le_bytes()[..], &offset.to_le_bytes()].concat()
}

/// Magic, version and both counts.
pub(crate) fn header(version: u32, tensors: u64, entries: u64) -> Vec<u8> {
    [b"GGUF", &version.to_le_bytes()[..], &tensors.to_le_bytes(), &entries.to_le_bytes()].concat()
}

/// A file of version 3, its data after padding to a multiple of 32 bytes.
pub(crate) fn file(entries: &[Vec<u8>], listings: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    let header = header(3, listings.len() as u64, entries.len() as u64);
    let mut bytes = [header, entries.concat(), listings.concat()].concat();
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend_from_slice(data);
    bytes
}

/// Type and bytes of a value.
fn encode(value: &Value) -> (u32, Vec<u8>) {
    match value {
        Value::U8(value) => (0, value.to_le_bytes().into()),
        Value::I8(value) => (1, value.to_le_bytes().into()),
        Value::U16(value) => (2, value.to_le_bytes().into()),
        Value::I16(value) => (3, value.to_le_bytes().into()),
        Value::U32(value) => (4, value.to_le_bytes().into()),
        Value::I32(value) => (5, value.to_le_bytes().into()),
        Value::F32(value) => (6, value.to_le_bytes().into()),
        Value::Bool(value) => (7, vec![u8::from(*value)]),
        Value::String(value) => (8, string(value)),
        Value::Array(array) => (9, encode_array(array)),
        Value::U64(value) => (10, value.to_le_bytes().into()),
        Value::I64(value) => (11, value.to_le_bytes().into()),
        Value::F64(value) => (12, value.to_le_bytes().into()),
    }
}

fn encode_array(array: &Array) -> Vec<u8> {
    match array {
        Array::U8(elements) => elements_of(0, elements, |value| value.to_le_bytes().into()),
        Array::I8(elements) => elements_of(1, elements, |value| value.to_le_bytes().into()),
        Array::U16(elements) => elements_of(2, elements, |value| value.to_le_bytes().into()),
        Array::I16(elements) => elements_of(3, elements, |value| value.to_le_bytes().into()),
        Array::U32(elements) => elements_of(4, elements, |value| value.to_le_bytes().into()),
        Array::I32(elements) => elements_of(5, elements, |value| value.to_le_bytes().into()),
        Array::F32(elements) => elements_of(6, elements, |value| value.to_le_bytes().into()),
        Array::Bool(elements) => elements_of(7, elements, |value| vec![u8::from(*value)]),
        Array::String(elements) => elements_of(8, elements, |value| string(value)),
        Array::Array(elements) => elements_of(9, elements, encode_array),
        Array::U64(elements) => elements_of(10, elements, |value| value.to_le_bytes().into()),
        Array::I64(elements) => elements_of(11, elements, |value| value.to_le_bytes().into()),
        Array::F64(elements) => elements_of(12, elements, |value| value.to_le_bytes().into()),
    }
}

/// Type, length and elements of an array.
pub(crate) fn elements_of<T>(kind: u32, elements: &[T], encode: impl Fn(&T) -> Vec<u8>) -> Vec<u8> {
    let bytes: Vec<u8> = elements.iter().flat_map(encode).collect();
    [&kind.to_le_bytes()[..], &(elements.len() as u64).to_le_bytes(), &bytes].concat()
}
