//! The tensors of a checkpoint, memory-mapped from `model.safetensors` or from the shards of its index.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use memmap2::Mmap;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::Deserialize;

use crate::error::{ModelError, Result};
use crate::files::{read_text, required};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const INDEX_BYTES_MAX: u64 = 64 << 20;
const SHARDS_MAX: usize = 1 << 12;

/// The named tensors of one checkpoint. Opening reads headers only; a tensor is read when it is asked for.
#[derive(Debug)]
pub struct Weights {
    shards: Vec<Shard>,
    /// Which shard holds a tensor.
    shard_of: HashMap<String, usize>,
}

impl Weights {
    /// Opens the weights in a folder: `model.safetensors`, or else all that `model.safetensors.index.json` names.
    pub fn open(folder: &Path) -> Result<Self> {
        let files = weight_files(folder)?;
        let shards = files.iter().map(|file| Shard::open(file)).collect::<Result<Vec<_>>>()?;
        let mut shard_of = HashMap::new();
        for (index, shard) in shards.iter().enumerate() {
            shard_of.extend(shard.header.tensors().into_keys().map(|name| (name, index)));
        }
        Ok(Self { shards, shard_of })
    }

    /// Opens one safetensors file.
    pub(crate) fn open_file(file: &Path) -> Result<Self> {
        let shard = Shard::open(file)?;
        let shard_of = shard.header.tensors().into_keys().map(|name| (name, 0)).collect();
        let shards = vec![shard];
        Ok(Self { shards, shard_of })
    }

    /// Whether the checkpoint holds a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.shard_of.contains_key(name)
    }

    /// Reads a tensor of 32-bit or 16-bit floats, which stay as they are; its shape must be `shape`.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let (info, bytes) = self.find(name)?;
        if info.shape != shape {
            return Err(ModelError::Shape {
                name: name.to_owned(),
                expected: shape.to_vec(),
                found: info.shape.clone(),
            });
        }
        let dtype = float(info.dtype).ok_or_else(|| dtype_fault(name, info.dtype, "F32, F16 or BF16"))?;
        Ok(Tensor::from_raw_buffer(bytes, dtype, shape, &Device::Cpu)?)
    }

    /// The names of all tensors, in no order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.shard_of.keys().map(String::as_str)
    }

    /// The shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Result<&[usize]> {
        self.find(name).map(|(info, _)| info.shape.as_slice())
    }

    /// Reads a tensor of 64-bit integers, flattened.
    pub(crate) fn integers(&self, name: &str) -> Result<Vec<i64>> {
        let (info, bytes) = self.find(name)?;
        if info.dtype != Dtype::I64 {
            return Err(dtype_fault(name, info.dtype, "I64"));
        }
        let (integers, _) = bytes.as_chunks();
        Ok(integers.iter().copied().map(i64::from_le_bytes).collect())
    }

    fn find(&self, name: &str) -> Result<(&TensorInfo, &[u8])> {
        self.shard_of
            .get(name)
            .and_then(|&shard| self.shards[shard].find(name))
            .ok_or_else(|| ModelError::MissingTensor { name: name.to_owned() })
    }
}

fn dtype_fault(name: &str, found: Dtype, expected: &'static str) -> ModelError {
    let (name, found) = (name.to_owned(), format!("{found:?}"));
    ModelError::Dtype { name, found, expected }
}

fn float(dtype: Dtype) -> Option<DType> {
    match dtype {
        Dtype::F32 => Some(DType::F32),
        Dtype::F16 => Some(DType::F16),
        Dtype::BF16 => Some(DType::BF16),
        _ => None,
    }
}

/// One memory-mapped safetensors file.
#[derive(Debug)]
struct Shard {
    map: Mmap,
    header: Metadata,
    /// Where the tensors begin in the file.
    data_start: usize,
}

impl Shard {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|fault| ModelError::io(path, fault))?;
        // SAFETY: the mapping is read-only. A checkpoint that another process changes while it is loaded is outside
        // what any reader of mapped files can guard against; the user is told not to in the README.
        let map = unsafe { Mmap::map(&file) }.map_err(|fault| ModelError::io(path, fault))?;
        let (header_bytes, header) =
            SafeTensors::read_metadata(&map).map_err(|fault| header_fault(path, map.len(), fault))?;
        let data_start = size_of::<u64>() + header_bytes;
        Ok(Self { map, header, data_start })
    }

    fn find(&self, name: &str) -> Option<(&TensorInfo, &[u8])> {
        let info = self.header.info(name)?;
        let (start, end) = info.data_offsets;
        let bytes = self.map.get(self.data_start + start..self.data_start + end)?;
        Some((info, bytes))
    }
}

fn header_fault(path: &Path, bytes: usize, fault: SafeTensorError) -> ModelError {
    let path = path.to_owned();
    match fault {
        SafeTensorError::HeaderTooSmall
        | SafeTensorError::InvalidHeaderLength
        | SafeTensorError::MetadataIncompleteBuffer => ModelError::Truncated { path, bytes },
        fault => ModelError::Safetensors { path, fault },
    }
}

/// `model.safetensors.index.json`: which file holds which tensor.
#[derive(Deserialize)]
struct ShardIndex {
    weight_map: HashMap<String, String>,
}

fn weight_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let single = folder.join(SINGLE);
    if single.is_file() {
        return Ok(vec![single]);
    }
    let path = folder.join(INDEX);
    if !path.is_file() {
        let name = "model.safetensors or model.safetensors.index.json";
        return Err(ModelError::MissingFile { folder: folder.to_owned(), name });
    }
    let text = required(read_text(&path, INDEX_BYTES_MAX)?, folder, INDEX)?;
    let index: ShardIndex = serde_json::from_str(&text).map_err(|fault| ModelError::Json { path: path.clone(), fault })?;
    let names = index.weight_map.into_values().collect();
    shard_files(folder, &names).map_err(|what| ModelError::ShardIndex { path, what })
}

/// The shards beside an index. Their names may not lead out of the folder.
fn shard_files(folder: &Path, names: &BTreeSet<String>) -> Result<Vec<PathBuf>, String> {
    if names.is_empty() || names.len() > SHARDS_MAX {
        return Err(format!("{} shards, expected 1 to {SHARDS_MAX}", names.len()));
    }
    let plain = |name: &str| matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
    match names.iter().find(|name| !plain(name)) {
        Some(name) => Err(format!("shard \"{name}\" is not a plain file name")),
        None => Ok(names.iter().map(|name| folder.join(name)).collect()),
    }
}
