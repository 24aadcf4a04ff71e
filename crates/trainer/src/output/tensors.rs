//! safetensors files, written tensor by tensor and read back.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};

use crate::error::{Result, TrainError};
use crate::files;

/// Headers are padded to this many bytes, as the format asks.
const HEADER_ALIGNMENT: usize = 8;

/// Writes tensors of f32 or bf16, by name, and notes beside them.
///
/// # Errors
/// A file that cannot be written: it is then as it was.
pub(crate) fn write_tensors(
    path: &Path,
    tensors: &BTreeMap<String, Tensor>,
    notes: HashMap<String, String>,
) -> Result<()> {
    let header = header(tensors, notes).map_err(|fault| TrainError::write(path, fault))?;
    files::replace(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        tensors.values().try_for_each(|tensor| write_elements(tensor, file))
    })
}

fn header(tensors: &BTreeMap<String, Tensor>, notes: HashMap<String, String>) -> io::Result<Vec<u8>> {
    let mut end = 0;
    let mut infos = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let start = end;
        end += tensor.elem_count() * tensor.dtype().size_in_bytes();
        let info = TensorInfo { dtype: dtype(tensor)?, shape: tensor.dims().to_vec(), data_offsets: (start, end) };
        infos.push((name.clone(), info));
    }
    let metadata = Metadata::new(Some(notes), infos).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize(header.len().next_multiple_of(HEADER_ALIGNMENT), b' ');
    Ok(header)
}

fn dtype(tensor: &Tensor) -> io::Result<Dtype> {
    match tensor.dtype() {
        DType::F32 => Ok(Dtype::F32),
        DType::BF16 => Ok(Dtype::BF16),
        other => Err(io::Error::other(format!("tensors of {other:?} are not saved"))),
    }
}

fn write_elements(tensor: &Tensor, file: &mut dyn Write) -> io::Result<()> {
    let flat = tensor.to_device(&Device::Cpu).and_then(|tensor| tensor.flatten_all()).map_err(io::Error::other)?;
    let bytes: Vec<u8> = match tensor.dtype() {
        DType::BF16 => {
            let elements = flat.to_vec1::<half::bf16>().map_err(io::Error::other)?;
            elements.into_iter().flat_map(half::bf16::to_le_bytes).collect()
        }
        _ => {
            let elements = flat.to_vec1::<f32>().map_err(io::Error::other)?;
            elements.into_iter().flat_map(f32::to_le_bytes).collect()
        }
    };
    file.write_all(&bytes)
}

/// A safetensors file of f32, in memory.
pub(crate) struct Archive {
    path: PathBuf,
    bytes: Vec<u8>,
    header: Metadata,
    data_start: usize,
}

impl Archive {
    /// Reads a file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|fault| TrainError::read(path, fault))?;
        let (length, header) = SafeTensors::read_metadata(&bytes)
            .map_err(|fault| TrainError::Checkpoint { path: path.to_owned(), what: fault.to_string() })?;
        Ok(Self { path: path.to_owned(), bytes, header, data_start: size_of::<u64>() + length })
    }

    /// A note that was written beside the tensors.
    pub(crate) fn note(&self, key: &str) -> Result<&str> {
        let note = self.header.metadata().as_ref().and_then(|notes| notes.get(key));
        note.map(String::as_str).ok_or_else(|| self.fault(format!("it has no note `{key}`")))
    }

    /// The tensor `name`, which must be like another in shape and element type.
    pub(crate) fn tensor_like(&self, name: &str, like: &Tensor) -> Result<Tensor> {
        let lacking = || self.fault(format!("tensor {name} is missing"));
        let info = self.header.info(name).ok_or_else(lacking)?;
        if info.shape != like.dims() || info.dtype != Dtype::F32 || like.dtype() != DType::F32 {
            let expected = (like.dtype(), like.dims());
            return Err(self.fault(format!("{name} is {:?} {:?}, expected {expected:?}", info.dtype, info.shape)));
        }
        let (start, end) = info.data_offsets;
        let bytes = self.bytes.get(self.data_start + start..self.data_start + end).ok_or_else(lacking)?;
        Ok(Tensor::from_raw_buffer(bytes, DType::F32, like.dims(), like.device())?)
    }

    pub(crate) fn fault(&self, what: String) -> TrainError {
        TrainError::Checkpoint { path: self.path.clone(), what }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn tensors() -> BTreeMap<String, Tensor> {
        let a = Tensor::new(&[[1.5_f32, -2.0, 1e-30], [0.0, 7.0, 3.25]], &Device::Cpu).unwrap();
        let b = Tensor::new(&[1.0_f32, 2.0], &Device::Cpu).unwrap().to_dtype(DType::BF16).unwrap();
        BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)])
    }

    #[test]
    fn what_is_written_is_read_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let tensors = tensors();
        write_tensors(&path, &tensors, HashMap::from([("key".to_owned(), "value".to_owned())])).unwrap();
        let archive = Archive::open(&path).unwrap();
        let a = archive.tensor_like("a", &tensors["a"]).unwrap();
        assert_eq!(a.to_vec2::<f32>().unwrap(), tensors["a"].to_vec2::<f32>().unwrap());
        assert_eq!(archive.note("key").unwrap(), "value");
        // The library of the format reads it too.
        let bytes = std::fs::read(&path).unwrap();
        let all = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(all.tensor("b").unwrap().data(), [0x80, 0x3F, 0x00, 0x40]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let tensors = tensors();
        write_tensors(&path, &tensors, HashMap::new()).unwrap();
        let archive = Archive::open(&path).unwrap();
        let fault = |name, like: &Tensor| archive.tensor_like(name, like).unwrap_err().to_string();
        assert!(fault("c", &tensors["a"]).ends_with("tensor c is missing"));
        assert!(fault("a", &tensors["a"].t().unwrap()).ends_with("a is F32 [2, 3], expected (F32, [3, 2])"));
        assert!(archive.note("key").unwrap_err().to_string().ends_with("it has no note `key`"));
        std::fs::write(&path, b"short").unwrap();
        assert!(matches!(Archive::open(&path), Err(TrainError::Checkpoint { .. })));
    }
}
