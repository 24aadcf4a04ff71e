//! A file that is written from front to back.

use std::io::{self, Write};

use crate::encode;
use crate::error::GgufError;
use crate::metadata::Metadata;
use crate::tensor_type::TensorType;

/// Version 3, which llama.cpp has written since 2023.
const VERSION: u32 = 3;
/// The alignment that is meant where the metadata say nothing.
const ALIGNMENT: usize = 32;

/// A tensor that is going to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTensor {
    /// What it is called.
    pub name: String,
    /// The fastest dimension last.
    pub shape: Vec<usize>,
    /// How its elements are stored.
    pub kind: TensorType,
}

impl NewTensor {
    /// Its bytes; an error where its rows are no whole blocks.
    fn bytes(&self) -> Result<usize, GgufError> {
        let (row, block) = (self.shape.last().copied().unwrap_or(1), self.kind.block_elements());
        if !row.is_multiple_of(block) {
            let (name, kind) = (self.name.clone(), self.kind);
            return Err(GgufError::Block { name, found: row as u64, kind, block: block as u64 });
        }
        Ok(self.shape.iter().product::<usize>() / block * self.kind.block_bytes())
    }
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system refused.
    #[error("the file cannot be written: {0}")]
    Io(#[from] io::Error),
    /// What was to be written cannot be.
    #[error(transparent)]
    Gguf(Box<GgufError>),
    /// A tensor of another size than announced, or one too many.
    #[error("tensor {name:?} has {found} bytes, and {expected} were announced")]
    Size {
        /// Which tensor.
        name: String,
        /// How many bytes it has.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
    /// The file was finished early.
    #[error("{missing} tensors of those that were announced were not written")]
    Unfinished {
        /// How many are missing.
        missing: usize,
    },
}

impl From<GgufError> for WriteError {
    fn from(fault: GgufError) -> Self {
        Self::Gguf(Box::new(fault))
    }
}

/// Writes one file: the header first, then the tensors in the order in which they were announced.
#[derive(Debug)]
pub struct GgufWriter<W> {
    out: W,
    /// Names and sizes of the tensors that are still to be written, the next one last.
    left: Vec<Announced>,
}

#[derive(Debug)]
struct Announced {
    name: String,
    bytes: usize,
}

impl<W: Write> GgufWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// A tensor whose rows are no whole blocks, and what the operating system refuses.
    pub fn begin(mut out: W, metadata: &Metadata, tensors: &[NewTensor]) -> Result<Self, WriteError> {
        let mut header = b"GGUF".to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend((tensors.len() as u64).to_le_bytes());
        header.extend((metadata.iter().count() as u64).to_le_bytes());
        for (key, value) in metadata.iter() {
            encode::string(key, &mut header);
            encode::value(value, &mut header);
        }
        let mut left = Vec::with_capacity(tensors.len());
        let mut offset = 0;
        for tensor in tensors {
            let bytes = tensor.bytes()?;
            list(tensor, offset, &mut header);
            left.push(Announced { name: tensor.name.clone(), bytes });
            offset += bytes.next_multiple_of(ALIGNMENT);
        }
        left.reverse();
        header.resize(header.len().next_multiple_of(ALIGNMENT), 0);
        out.write_all(&header)?;
        Ok(Self { out, left })
    }

    /// Writes the bytes of the next tensor.
    ///
    /// # Errors
    /// Another size than announced, and what the operating system refuses.
    pub fn tensor(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let (name, expected) = self.left.pop().map_or_else(Default::default, |next| (next.name, next.bytes));
        if bytes.len() != expected {
            return Err(WriteError::Size { name, found: bytes.len(), expected });
        }
        self.out.write_all(bytes)?;
        let padding = bytes.len().next_multiple_of(ALIGNMENT) - bytes.len();
        Ok(self.out.write_all(&vec![0; padding])?)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Tensors that were announced and not written, and what the operating system refuses.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if !self.left.is_empty() {
            return Err(WriteError::Unfinished { missing: self.left.len() });
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

/// The listing of a tensor, its dimensions the fastest first.
fn list(tensor: &NewTensor, offset: usize, header: &mut Vec<u8>) {
    encode::string(&tensor.name, header);
    header.extend((tensor.shape.len() as u32).to_le_bytes());
    for size in tensor.shape.iter().rev() {
        header.extend((*size as u64).to_le_bytes());
    }
    header.extend(tensor.kind.number().to_le_bytes());
    header.extend((offset as u64).to_le_bytes());
}
