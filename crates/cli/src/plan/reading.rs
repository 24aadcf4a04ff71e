//! Files that `espalier plan` reads.

use std::path::Path;

use crate::error::CliError;

pub(super) fn read(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|source| CliError::Read { path: path.to_owned(), source })
}
