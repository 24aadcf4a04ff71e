//! What is wrong with a scenario.

use std::ops::RangeInclusive;

use espalier_speculation::{PolicyError, PolicySpec, parse_policy};
use thiserror::Error;

/// Why a scenario cannot be simulated.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// It is no JSON of a scenario.
    #[error("the scenario cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A number is out of its range.
    #[error("`{field}` is {found}; it must be {least} to {most}")]
    Range {
        /// Where it stands.
        field: String,
        /// What was found.
        found: f64,
        /// The least that it may be.
        least: f64,
        /// The most that it may be.
        most: f64,
    },
    /// There must be some, and there are none.
    #[error("`{field}` is empty; it must name one at least")]
    Empty {
        /// Where it stands.
        field: String,
    },
    /// A name that two have, or nobody.
    #[error("`{field}` is `{found}`, {fault}")]
    Name {
        /// Where it stands.
        field: String,
        /// The name.
        found: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A policy that is none.
    #[error("`{field}` is `{found}`: {source}")]
    Policy {
        /// Where it stands.
        field: String,
        /// What was given.
        found: String,
        /// What is wrong with it.
        source: Box<PolicyError>,
    },
}

/// Refuses a number out of its range.
pub(crate) fn within(
    field: impl FnOnce() -> String,
    found: f64,
    range: RangeInclusive<f64>,
) -> Result<(), ScenarioError> {
    if range.contains(&found) {
        return Ok(());
    }
    Err(ScenarioError::Range { field: field(), found, least: *range.start(), most: *range.end() })
}

/// Refuses a list without items.
pub(crate) fn some<T>(field: impl FnOnce() -> String, list: &[T]) -> Result<(), ScenarioError> {
    if list.is_empty() { Err(ScenarioError::Empty { field: field() }) } else { Ok(()) }
}

/// Reads a policy.
pub(crate) fn policy(field: impl FnOnce() -> String, text: &str) -> Result<PolicySpec, ScenarioError> {
    let refused = |source| ScenarioError::Policy { field: field(), found: text.to_owned(), source: Box::new(source) };
    parse_policy(text).map_err(refused)
}
