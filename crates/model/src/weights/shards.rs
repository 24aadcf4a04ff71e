//! Tensors memory-mapped from `model.safetensors` or from the shards of its index.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use espalier_gguf::TensorType;
use memmap2::Mmap;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::Deserialize;

use crate::error::{ModelError, Result};
use crate::files::{read_text, required};
use crate::raw_matrix::RawMatrix;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const INDEX_BYTES_MAX: u64 = 64 << 20;
const SHARDS_MAX: usize = 1 << 12;

/// The tensors of one or several safetensors files.
#[derive(Debug)]
pub(crate) struct Shards {
    shards: Vec<Shard>,
    /// Which shard holds a tensor.
    shard_of: HashMap<String, usize>,
}

impl Shards {
    /// Opens the weights in a folder: `model.safetensors`, or else all that `model.safetensors.index.json` names.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
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
    pub(crate) fn has(&self, name: &str) -> bool {
        self.shard_of.contains_key(name)
    }

    /// Reads a tensor of 32-bit or 16-bit floats, which stay as they are; its shape must be `shape`.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let stored = self.find_shaped(name, shape)?;
        let (_, dtype) = float(name, stored.info.dtype)?;
        Ok(Tensor::from_raw_buffer(&stored.map[stored.range], dtype, shape, &Device::Cpu)?)
    }

    /// A matrix (out, in) of 32-bit or 16-bit floats; its shape must be `shape`.
    pub(crate) fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<RawMatrix> {
        let stored = self.find_shaped(name, &shape)?;
        let (kind, _) = float(name, stored.info.dtype)?;
        Ok(RawMatrix::new(stored.map.clone(), stored.range.start, kind, shape))
    }

    fn find_shaped(&self, name: &str, shape: &[usize]) -> Result<Stored<'_>> {
        let stored = self.find(name)?;
        if stored.info.shape == shape {
            return Ok(stored);
        }
        Err(ModelError::Shape { name: name.to_owned(), expected: shape.to_vec(), found: stored.info.shape.clone() })
    }

    /// How the elements of a tensor of 32-bit or 16-bit floats are stored.
    pub(crate) fn kind(&self, name: &str) -> Result<TensorType> {
        float(name, self.find(name)?.info.dtype).map(|(kind, _)| kind)
    }

    /// The names of all tensors, in no order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.shard_of.keys().map(String::as_str)
    }

    /// The shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Result<&[usize]> {
        self.find(name).map(|stored| stored.info.shape.as_slice())
    }

    /// Reads a tensor of 64-bit integers, flattened.
    pub(crate) fn integers(&self, name: &str) -> Result<Vec<i64>> {
        let Stored { info, map, range } = self.find(name)?;
        if info.dtype != Dtype::I64 {
            return Err(dtype_fault(name, info.dtype, "I64"));
        }
        let (integers, _) = map[range].as_chunks();
        Ok(integers.iter().copied().map(i64::from_le_bytes).collect())
    }

    fn find(&self, name: &str) -> Result<Stored<'_>> {
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

/// The type of floats, as this crate and as candle calls it.
fn float(name: &str, dtype: Dtype) -> Result<(TensorType, DType)> {
    match dtype {
        Dtype::F32 => Ok((TensorType::F32, DType::F32)),
        Dtype::F16 => Ok((TensorType::F16, DType::F16)),
        Dtype::BF16 => Ok((TensorType::BF16, DType::BF16)),
        other => Err(dtype_fault(name, other, "F32, F16 or BF16")),
    }
}

/// One memory-mapped safetensors file.
#[derive(Debug)]
struct Shard {
    map: Arc<Mmap>,
    header: Metadata,
    /// Where the tensors begin in the file.
    data_start: usize,
}

impl Shard {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|fault| ModelError::io(path, fault))?;
        // SAFETY: the mapping is read-only. A checkpoint that another process changes while it is mapped is outside
        // what a reader of mapped files can guard against.
        let map = Arc::new(unsafe { Mmap::map(&file) }.map_err(|fault| ModelError::io(path, fault))?);
        let (header_bytes, header) =
            SafeTensors::read_metadata(&map).map_err(|fault| header_fault(path, map.len(), fault))?;
        let data_start = size_of::<u64>() + header_bytes;
        Ok(Self { map, header, data_start })
    }

    fn find(&self, name: &str) -> Option<Stored<'_>> {
        let info = self.header.info(name)?;
        let (start, end) = info.data_offsets;
        let range = self.data_start + start..self.data_start + end;
        (range.end <= self.map.len()).then_some(Stored { info, map: &self.map, range })
    }
}

/// A tensor, and where in a mapped file it lies.
struct Stored<'a> {
    info: &'a TensorInfo,
    map: &'a Arc<Mmap>,
    /// Inside the file.
    range: Range<usize>,
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

/// The files that hold a folder's weights, in order of their names.
pub(crate) fn weight_files(folder: &Path) -> Result<Vec<PathBuf>> {
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
    let index: ShardIndex =
        serde_json::from_str(&text).map_err(|fault| ModelError::Json { path: path.clone(), fault })?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use proptest::prelude::*;

    use super::*;

    /// A safetensors file of two tensors: `a` (2, 3) in f32 and `b` (2,) in bf16.
    fn file(a: &str, b: &str) -> Vec<u8> {
        let header = format!(
            r#"{{"{a}":{{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}},"{b}":{{"dtype":"BF16","shape":[2],"data_offsets":[24,28]}}}}"#
        );
        let floats = (0..6).flat_map(|value| (value as f32).to_le_bytes());
        let halves = [0x3F80u16, 0x4000].into_iter().flat_map(u16::to_le_bytes);
        (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(floats).chain(halves).collect()
    }

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    fn fault<T>(result: Result<T>) -> String {
        result.err().unwrap().to_string()
    }

    #[test]
    fn tensors_keep_their_element_type() {
        let folder = folder(&[(SINGLE, &file("a", "b"))]);
        let weights = Shards::open(folder.path()).unwrap();
        let a = weights.tensor("a", &[2, 3]).unwrap();
        let b = weights.tensor("b", &[2]).unwrap();
        assert_eq!(a.to_vec2::<f32>().unwrap(), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]);
        assert_eq!(b.dtype(), DType::BF16);
        assert_eq!(b.to_dtype(DType::F32).unwrap().to_vec1::<f32>().unwrap(), [1.0, 2.0]);
        assert!(weights.has("a") && !weights.has("c"));
    }

    #[test]
    fn shards_are_read_as_one() {
        let index = br#"{"metadata": {}, "weight_map": {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors", "d": "2.safetensors"}}"#;
        let files = [(INDEX, index.as_slice()), ("1.safetensors", &file("a", "b")), ("2.safetensors", &file("c", "d"))];
        let folder = folder(&files);
        let weights = Shards::open(folder.path()).unwrap();
        for name in ["a", "c"] {
            assert_eq!(weights.tensor(name, &[2, 3]).unwrap().dims(), [2, 3]);
        }
    }

    #[test]
    fn faults_name_the_tensor_or_the_file() {
        let folder = folder(&[(SINGLE, &file("a", "b"))]);
        let weights = Shards::open(folder.path()).unwrap();
        assert_eq!(fault(weights.tensor("x", &[1])), "tensor x is missing from the checkpoint");
        assert_eq!(fault(weights.tensor("a", &[3, 2])), "a has shape [2, 3], expected [3, 2]");
        let path = folder.path().join(SINGLE);
        fs::write(&path, &file("a", "b")[..100]).unwrap();
        let truncated = format!("{} is truncated or overlong: its 100 bytes do not match its header", path.display());
        assert_eq!(fault(Shards::open(folder.path())), truncated);
        fs::write(&path, []).unwrap();
        assert!(fault(Shards::open(folder.path())).contains("its 0 bytes do not match"));
        fs::remove_file(&path).unwrap();
        let missing = "has no model.safetensors or model.safetensors.index.json";
        assert!(fault(Shards::open(folder.path())).ends_with(missing));
    }

    #[test]
    fn integers_are_not_weights() {
        let header = br#"{"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}"#;
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_slice(), &7i64.to_le_bytes()].concat();
        let folder = folder(&[(SINGLE, &bytes)]);
        let weights = Shards::open(folder.path()).unwrap();
        assert_eq!(weights.integers("n").unwrap(), [7]);
        assert_eq!(fault(weights.tensor("n", &[1])), "tensor n has element type I64, expected F32, F16 or BF16");
    }

    #[test]
    fn an_index_cannot_lead_out_of_its_folder() {
        for name in ["../x.safetensors", "/x.safetensors", "a/x.safetensors", "..", ""] {
            let index = format!(r#"{{"weight_map": {{"a": "{name}"}}}}"#);
            let folder = folder(&[(INDEX, index.as_bytes())]);
            let expected = format!("shard \"{name}\" is not a plain file name");
            assert!(fault(Shards::open(folder.path())).ends_with(&expected), "{name}");
        }
        let folder = folder(&[(INDEX, br#"{"weight_map": {}}"#)]);
        assert!(fault(Shards::open(folder.path())).ends_with("0 shards, expected 1 to 4096"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(at in 0usize..200, byte in any::<u8>(), length in 0usize..400) {
            let mut bytes = file("a", "b");
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(length);
            let folder = folder(&[(SINGLE, &bytes)]);
            if let Ok(weights) = Shards::open(folder.path()) {
                for name in ["a", "b"] {
                    let _ = weights.tensor(name, &[2, 3]);
                }
            }
        }
    }
}
