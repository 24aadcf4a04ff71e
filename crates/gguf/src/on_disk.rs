//! A GGUF file on disk, mapped into memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::error::GgufError;
use crate::file::Gguf;
use crate::metadata::Metadata;
use crate::tensor::Tensor;

/// A file that cannot be had.
///
/// Every message is one whole sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot read {}: {fault}", path.display())]
    Io {
        /// The file, or the folder.
        path: PathBuf,
        /// What the operating system said.
        fault: std::io::Error,
    },
    /// A folder with more than one file.
    #[error("{} has {count} GGUF files: one of them must be named", folder.display())]
    Several {
        /// The folder.
        folder: PathBuf,
        /// How many there are.
        count: usize,
    },
    /// The contents are at fault.
    #[error("{}: {fault}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        fault: Box<GgufError>,
    },
}

/// The result of reading a file.
pub(crate) type Result<T, E = FileError> = std::result::Result<T, E>;

/// A GGUF file whose header has been read. Tensors are read when they are asked for.
#[derive(Debug)]
pub struct GgufFile {
    path: PathBuf,
    map: Mmap,
    header: Gguf,
}

impl GgufFile {
    /// Maps a file and reads its header.
    ///
    /// # Errors
    /// A file that cannot be read, or any fault of its header.
    pub fn open(path: &Path) -> Result<Self> {
        let io = |fault| FileError::Io { path: path.to_owned(), fault };
        let file = File::open(path).map_err(io)?;
        // SAFETY: the mapping is read-only. A file that another process changes while it is mapped is outside what a
        // reader of mapped files can guard against.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        let format = |fault| FileError::Format { path: path.to_owned(), fault: Box::new(fault) };
        let header = Gguf::parse(&map).map_err(format)?;
        Ok(Self { path: path.to_owned(), map, header })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its header.
    pub fn header(&self) -> &Gguf {
        &self.header
    }

    /// What it says of itself.
    pub fn metadata(&self) -> &Metadata {
        self.header.metadata()
    }

    /// One of its tensors, if it has it.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        self.header.tensor(&self.map, name).ok()
    }
}

impl AsRef<[u8]> for GgufFile {
    /// All its bytes, which [`TensorInfo::range`](crate::TensorInfo::range) counts.
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}
