//! Names that may be given once.

use std::collections::HashSet;

/// Two things are called by one name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} `{name}` is given twice")]
pub struct Twice {
    /// What the name names.
    pub what: &'static str,
    /// The name.
    pub name: String,
}

/// Checks that no two of `names` are equal; `what` says what they name.
///
/// # Errors
/// The first name that came before.
pub fn unique<'a>(what: &'static str, names: impl IntoIterator<Item = &'a str>) -> Result<(), Twice> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(Twice { what, name: name.to_owned() }),
        None => Ok(()),
    }
}
