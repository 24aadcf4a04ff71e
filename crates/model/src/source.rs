//! Where a model's configuration and tensors are.

use std::path::{Path, PathBuf};

use crate::error::Result;

/// What a path to a model stands for.
#[derive(Debug)]
pub(crate) enum Source {
    /// A folder in Hugging Face format.
    Folder(PathBuf),
    /// A GGUF file, which is all there is to it.
    Gguf(PathBuf),
}

impl Source {
    /// What `path` stands for; of a path where nothing is, the folder that it may have been meant for.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let file = espalier_gguf::find(path)?;
        Ok(file.map_or_else(|| Self::Folder(path.to_owned()), Self::Gguf))
    }
}
