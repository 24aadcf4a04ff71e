//! Folders and files by paths that hold wherever a run is resumed.

use std::path::{Path, PathBuf};

use espalier_local::{LocalError, SystemArgs, checkpoint};

/// A checkpoint's folder, wherever the run is resumed.
pub(super) fn folder(system: &SystemArgs, name: &str) -> Result<PathBuf, LocalError> {
    Ok(absolute(&checkpoint(name, system)?))
}

/// The path from the root, if the working directory is known.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
