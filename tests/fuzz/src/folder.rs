//! Bytes that are read from files.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A file to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File<'a> {
    pub(crate) name: &'a str,
    pub(crate) bytes: &'a [u8],
}

/// A folder with some files, as long as it is held. Its name is always the same, that of what it is in is not.
pub(crate) struct Folder {
    path: PathBuf,
    _within: TempDir,
}

impl Folder {
    pub(crate) fn of(files: &[File<'_>]) -> Self {
        let within = tempfile::tempdir().expect("a folder can be made");
        let path = within.path().join("model");
        std::fs::create_dir(&path).expect("a folder can be made in another");
        for file in files {
            std::fs::write(path.join(file.name), file.bytes).expect("a file can be written");
        }
        Self { path, _within: within }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
