//! Reading the small text files of a checkpoint, with a limit on their size.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::error::{ModelError, Result};

/// Reads a text file of at most `limit` bytes; `None` if there is none.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<Option<String>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(ModelError::io(path, fault)),
    };
    let bytes = fs::metadata(path).map_err(|fault| ModelError::io(path, fault))?.len();
    if bytes > limit {
        let path = path.to_owned();
        return Err(ModelError::TooLarge { path, bytes, limit });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|fault| ModelError::io(path, fault))?;
    Ok(Some(text))
}

/// Turns the absence of a file into an error that names it.
pub(crate) fn required<T>(found: Option<T>, folder: &Path, name: &'static str) -> Result<T> {
    found.ok_or_else(|| ModelError::MissingFile { folder: folder.to_owned(), name })
}
