//! The tensors of a GGUF file under the names of Hugging Face's format.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use espalier_gguf::TensorType;

use super::model::GgufModel;
use super::places::{Place, places};
use crate::error::{ModelError, Result};

/// The named tensors of one file.
#[derive(Debug)]
pub(crate) struct GgufTensors {
    model: GgufModel,
    /// By the names of the checkpoint.
    places: HashMap<String, Place>,
}

impl GgufTensors {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let model = GgufModel::open(path)?;
        let places = places(&model.config()?);
        let places = places.into_iter().map(|place| (place.checkpoint_name.clone(), place)).collect();
        Ok(Self { model, places })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    /// How the elements of a tensor are stored.
    pub(crate) fn kind(&self, name: &str) -> Result<TensorType> {
        self.find(name).map(|(_, tensor)| tensor.info().kind())
    }

    /// How the elements of all tensors are stored.
    pub(crate) fn kinds(&self) -> Vec<TensorType> {
        self.places.keys().filter_map(|name| self.kind(name).ok()).collect()
    }

    /// Reads a tensor, whose shape must be `shape`.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let (place, tensor) = self.find(name)?;
        let found = tensor.info().shape();
        // What was opened may be asked for with another configuration, and rows are ordered by that of the file.
        for expected in [shape, &place.shape] {
            if found != expected {
                let (expected, found) = (expected.to_vec(), found.to_vec());
                return Err(ModelError::Shape { name: place.name.clone(), expected, found });
            }
        }
        let stored = match float(tensor.info().kind()) {
            Some(dtype) => Tensor::from_raw_buffer(tensor.bytes(), dtype, shape, &Device::Cpu)?,
            None => Tensor::from_vec(tensor.to_f32(), shape, &Device::Cpu)?,
        };
        place.order.to_checkpoint(&stored)
    }

    fn find(&self, name: &str) -> Result<(&Place, espalier_gguf::Tensor<'_>)> {
        let missing = |name: &str| ModelError::MissingTensor { name: name.to_owned() };
        let place = self.places.get(name).ok_or_else(|| missing(name))?;
        let tensor = self.model.file().tensor(&place.name).ok_or_else(|| missing(&place.name))?;
        Ok((place, tensor))
    }
}

/// The type of tensors whose elements stay as they are.
fn float(kind: TensorType) -> Option<DType> {
    match kind {
        TensorType::F32 => Some(DType::F32),
        TensorType::F16 => Some(DType::F16),
        TensorType::BF16 => Some(DType::BF16),
        _ => None,
    }
}
