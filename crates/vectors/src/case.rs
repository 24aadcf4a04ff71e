//! What the cases of all kinds are checked with.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Greatest absolute difference between an expected float and a found one.
pub const TOLERANCE: f64 = 1e-9;

/// Reads a case as its kind has it.
pub(crate) fn parse<T: DeserializeOwned>(case: Value) -> Result<T, String> {
    serde_json::from_value(case).map_err(|error| format!("is not understood: {error}"))
}

/// Says what differs, unless nothing does.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found:?}, expected {expected:?}"))
}

/// Says which float differs, unless all are within [`TOLERANCE`].
pub(crate) fn close(what: &str, found: &[f64], expected: &[f64]) -> Result<(), String> {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE;
    if found.len() == expected.len() && found.iter().zip(expected).all(near) {
        return Ok(());
    }
    Err(format!("{what}: found {found:?}, expected {expected:?}"))
}
