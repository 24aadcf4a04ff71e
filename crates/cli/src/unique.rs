//! Names that may be given once.

use std::collections::HashSet;

use crate::error::CliError;

/// Checks that no two of `names` are equal; `what` says what they name.
pub(crate) fn unique<'a>(what: &'static str, names: impl IntoIterator<Item = &'a str>) -> Result<(), CliError> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(CliError::Twice { what, name: name.to_owned() }),
        None => Ok(()),
    }
}
