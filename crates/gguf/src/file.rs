//! A whole file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::cursor::Cursor;
use crate::error::{GgufError, Result};
use crate::layout::{Data, check_apart};
use crate::limits::{METADATA_MAX, TENSORS_MAX};
use crate::listing::Listing;
use crate::metadata::Metadata;
use crate::tensor::{Tensor, TensorInfo};

const MAGIC: [u8; 4] = *b"GGUF";

/// The header of a GGUF file. It borrows nothing: the bytes of the file are given again to read a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Gguf {
    version: u32,
    metadata: Metadata,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Gguf {
    /// Reads the header of a file of these bytes. Those of tensors are not touched.
    ///
    /// # Errors
    /// Any fault of the header, and tensors that cannot lie where it says.
    pub fn parse(file: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(file);
        let version = read_version(&mut cursor)?;
        let tensors = cursor.count(&Listing::limit(TENSORS_MAX), &"the number of tensors")?;
        let entries = cursor.count(&Metadata::limit(METADATA_MAX), &"the number of metadata entries")?;
        let metadata = Metadata::read(&mut cursor, entries)?;
        let listings =
            (0..tensors).map(|index| Listing::read(&mut cursor, index)).collect::<Result<Vec<Listing<'_>>>>()?;
        let length = file.len() as u64;
        let data = Data::after(length - cursor.left(), length, &metadata)?;
        Ok(Self { version, metadata, tensors: place(listings, &data)? })
    }

    /// The version of the format, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What the file says of itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, in order of their names.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors.iter().map(|(name, info)| (name.as_str(), info))
    }

    /// What is known of the tensor `name`.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// The tensor `name` of the file that was parsed, whose bytes are `file`.
    ///
    /// # Errors
    /// No such tensor, or bytes that end before it.
    pub fn tensor<'a>(&'a self, file: &'a [u8], name: &str) -> Result<Tensor<'a>> {
        let info = self.info(name).ok_or_else(|| GgufError::MissingTensor { name: name.to_owned() })?;
        let bytes = file.get(info.range()).ok_or_else(|| GgufError::Truncated {
            field: format!("tensor {name:?}"),
            needed: info.range.end as u64,
            left: file.len() as u64,
        })?;
        Ok(Tensor { info, bytes })
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32> {
    let found = cursor.array(&"the header")?;
    if found != MAGIC {
        return Err(GgufError::Magic { found });
    }
    match cursor.u32(&"the version")? {
        version @ (2 | 3) => Ok(version),
        found => match found.swap_bytes() {
            version @ (1..=3) => Err(GgufError::BigEndian { version }),
            _ => Err(GgufError::Version { found }),
        },
    }
}

/// The tensors by their names, each in bytes of its own.
fn place(listings: Vec<Listing<'_>>, data: &Data) -> Result<BTreeMap<String, TensorInfo>> {
    let mut tensors = BTreeMap::new();
    for listing in listings {
        let range = data.place(&listing)?;
        let Listing { name, shape, kind, .. } = listing;
        match tensors.entry(name.to_owned()) {
            Entry::Vacant(place) => place.insert(TensorInfo { shape, kind, range }),
            Entry::Occupied(place) => return Err(GgufError::DuplicateTensor { name: place.key().clone() }),
        };
    }
    check_apart(tensors.iter().map(|(name, info)| (name.as_str(), &info.range)))?;
    Ok(tensors)
}
