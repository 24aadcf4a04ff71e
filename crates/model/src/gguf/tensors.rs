//! The tensors of a GGUF file under the names of Hugging Face's format.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use espalier_gguf::{Gguf, TensorType};

use super::model::GgufModel;
use super::places::{Place, places};
use crate::error::{ModelError, Result};
use crate::raw_matrix::RawMatrix;

/// The named tensors of one file.
#[derive(Debug)]
pub(crate) struct GgufTensors {
    model: GgufModel,
    /// By the names of the checkpoint.
    places: HashMap<String, Place>,
    /// Whether most weights of its matrices are in 4 bits.
    four_bits: bool,
}

impl GgufTensors {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let model = GgufModel::open(path)?;
        let places = places(&model.config()?);
        let places = places.into_iter().map(|place| (place.checkpoint_name.clone(), place)).collect();
        let four_bits = mostly_in_four_bits(model.file().header());
        Ok(Self { model, places, four_bits })
    }

    /// Whether most weights of the matrices are in 4 bits.
    pub(crate) fn in_four_bits(&self) -> bool {
        self.four_bits
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
        let (place, tensor) = self.find_shaped(name, shape)?;
        let stored = match float(tensor.info().kind()) {
            Some(dtype) => Tensor::from_raw_buffer(tensor.bytes(), dtype, shape, &Device::Cpu)?,
            None => Tensor::from_vec(tensor.to_f32(), shape, &Device::Cpu)?,
        };
        place.order.to_checkpoint(&stored)
    }

    /// A matrix (out, in), whose shape must be `shape`. Where most are in 4 bits, those of more are kept in more.
    pub(crate) fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<RawMatrix> {
        let (place, tensor) = self.find_shaped(name, &shape)?;
        let (info, file) = (tensor.info(), self.model.file().clone());
        let stored = RawMatrix::new(file, info.range().start, info.kind(), shape);
        let fine = self.four_bits && !info.kind().has_four_bits();
        Ok(place.order.in_gguf(shape[0]).map_or_else(|| stored.clone(), |rows| stored.ordered(&rows)).fine(fine))
    }

    /// A tensor whose shape must be `shape`, and what is known of it.
    fn find_shaped(&self, name: &str, shape: &[usize]) -> Result<(&Place, espalier_gguf::Tensor<'_>)> {
        let (place, tensor) = self.find(name)?;
        let found = tensor.info().shape();
        // What was opened may be asked for with another configuration, and rows are ordered by that of the file.
        for expected in [shape, &place.shape] {
            if found != expected {
                let (expected, found) = (expected.to_vec(), found.to_vec());
                return Err(ModelError::Shape { name: place.name.clone(), expected, found });
            }
        }
        Ok((place, tensor))
    }

    fn find(&self, name: &str) -> Result<(&Place, espalier_gguf::Tensor<'_>)> {
        let missing = |name: &str| ModelError::MissingTensor { name: name.to_owned() };
        let place = self.places.get(name).ok_or_else(|| missing(name))?;
        let tensor = self.model.file().tensor(&place.name).ok_or_else(|| missing(&place.name))?;
        Ok((place, tensor))
    }
}

/// Whether most weights of the matrices of a file are in 4 bits.
fn mostly_in_four_bits(file: &Gguf) -> bool {
    let matrices = file.tensors().map(|(_, info)| info).filter(|info| info.shape().len() == 2);
    let (mut of_four_bits, mut all) = (0, 0);
    for info in matrices {
        let weights = info.shape().iter().product::<usize>();
        all += weights;
        of_four_bits += if info.kind().has_four_bits() { weights } else { 0 };
    }
    2 * of_four_bits > all
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
