//! The files of a folder of vectors.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The only layout of vector files that is understood.
pub const SCHEMA: u32 = 1;

/// Why vectors could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum VectorsError {
    /// A folder or file could not be read.
    #[error("{path} cannot be read")]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not a file of vectors.
    #[error("{path} is not a file of vectors")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A file of another layout.
    #[error("{path} has schema {found}, but this program reads schema {SCHEMA}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
    /// A folder without a single JSON file.
    #[error("there are no vectors in {path}")]
    Empty {
        /// The folder.
        path: PathBuf,
    },
}

/// A file of cases, not looked into yet.
#[derive(Deserialize)]
struct Cases {
    schema: u32,
    cases: Vec<Value>,
}

/// The cases of a file.
pub(crate) fn cases(path: &Path) -> Result<Vec<Value>, VectorsError> {
    let Cases { schema, cases } = read(path)?;
    if schema != SCHEMA {
        return Err(VectorsError::Schema { path: path.to_owned(), found: schema });
    }
    Ok(cases)
}

/// The JSON files of a folder in the order of their names, of which there must be one.
pub(crate) fn json_files(dir: &Path) -> Result<Vec<PathBuf>, VectorsError> {
    let failed = |source| VectorsError::Read { path: dir.to_owned(), source };
    let entries = fs::read_dir(dir).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed));
    let mut files = paths.collect::<Result<Vec<_>, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort_unstable();
    if files.is_empty() {
        return Err(VectorsError::Empty { path: dir.to_owned() });
    }
    Ok(files)
}

/// A file's name without its ending.
pub(crate) fn name_of(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

/// A file as what it should be.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, VectorsError> {
    let bytes = fs::read(path).map_err(|source| VectorsError::Read { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes).map_err(|source| VectorsError::Parse { path: path.to_owned(), source })
}
