//! The bytes of a header.

use crate::value::{Array, Value};

/// Length and bytes of a text.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    length(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

/// Type and bytes of a value.
pub(crate) fn value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::U8(value) => number(0, &value.to_le_bytes(), out),
        Value::I8(value) => number(1, &value.to_le_bytes(), out),
        Value::U16(value) => number(2, &value.to_le_bytes(), out),
        Value::I16(value) => number(3, &value.to_le_bytes(), out),
        Value::U32(value) => number(4, &value.to_le_bytes(), out),
        Value::I32(value) => number(5, &value.to_le_bytes(), out),
        Value::F32(value) => number(6, &value.to_le_bytes(), out),
        Value::Bool(value) => number(7, &[u8::from(*value)], out),
        Value::String(text) => {
            number(8, &[], out);
            string(text, out);
        }
        Value::Array(elements) => {
            number(9, &[], out);
            array(elements, out);
        }
        Value::U64(value) => number(10, &value.to_le_bytes(), out),
        Value::I64(value) => number(11, &value.to_le_bytes(), out),
        Value::F64(value) => number(12, &value.to_le_bytes(), out),
    }
}

fn number(kind: u32, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Type, length and elements.
fn array(array: &Array, out: &mut Vec<u8>) {
    match array {
        Array::U8(all) => elements(0, all, out, |element, out| out.push(*element)),
        Array::I8(all) => elements(1, all, out, |element, out| out.extend(element.to_le_bytes())),
        Array::U16(all) => elements(2, all, out, |element, out| out.extend(element.to_le_bytes())),
        Array::I16(all) => elements(3, all, out, |element, out| out.extend(element.to_le_bytes())),
        Array::U32(all) => elements(4, all, out, |element, out| out.extend(element.to_le_bytes())),
        Array::I32(all) => elements(5, all, out, |element, out| out.extend(element.to_le_bytes())),
        Array::F32(all) => elements(6, all, out, |element, out| out.extend(element.to_le_bytes())),
        Array::Bool(all) => elements(7, all, out, |element, out| out.push(u8::from(*element))),
        Array::String(all) => elements(8, all, out, |element, out| string(element, out)),
        Array::Array(all) => elements(9, all, out, self::array),
        Array::U64(all) => elements(10, all, out, |element, out| out.extend(element.to_le_bytes())),
        Array::I64(all) => elements(11, all, out, |element, out| out.extend(element.to_le_bytes())),
        Array::F64(all) => elements(12, all, out, |element, out| out.extend(element.to_le_bytes())),
    }
}

fn elements<T>(kind: u32, all: &[T], out: &mut Vec<u8>, element: impl Fn(&T, &mut Vec<u8>)) {
    out.extend_from_slice(&kind.to_le_bytes());
    length(all.len(), out);
    all.iter().for_each(|one| element(one, out));
}

fn length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u64).to_le_bytes());
}
