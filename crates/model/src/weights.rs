//! The tensors of a checkpoint, memory-mapped from safetensors or from a GGUF file; or random ones, made when asked for.

mod random;
mod shards;

use std::path::Path;

use candle_core::Tensor;
use espalier_gguf::TensorType;

use crate::error::Result;
use crate::gguf::GgufTensors;
use crate::raw_matrix::RawMatrix;
use crate::source::Source;
use random::RandomTensors;
pub(crate) use shards::{Shards, weight_files};

/// The named tensors of one checkpoint. Opening reads headers only; a tensor is read when it is asked for. Names and
/// the order of rows are those of Hugging Face's format, whatever the file has.
#[derive(Debug)]
pub struct Weights(Tensors);

#[derive(Debug)]
enum Tensors {
    Safetensors(Shards),
    Gguf(Box<GgufTensors>),
    Random(RandomTensors),
}

impl Weights {
    /// Opens the weights at a path: a GGUF file, or in a folder `model.safetensors`, or else all that
    /// `model.safetensors.index.json` names.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self(match Source::of(path)? {
            Source::Folder(folder) => Tensors::Safetensors(Shards::open(&folder)?),
            Source::Gguf(file) => Tensors::Gguf(Box::new(GgufTensors::open(&file)?)),
        }))
    }

    /// Tensors of any name and shape, of random numbers that seed and name decide.
    pub(crate) fn random(seed: u64) -> Self {
        Self(Tensors::Random(RandomTensors::new(seed)))
    }

    /// Whether the checkpoint holds a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        match &self.0 {
            Tensors::Safetensors(shards) => shards.has(name),
            Tensors::Gguf(tensors) => tensors.has(name),
            Tensors::Random(_) => true,
        }
    }

    /// Reads a tensor, whose shape must be `shape`. 32-bit and 16-bit floats stay as they are; what is quantized becomes
    /// 32-bit floats.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        match &self.0 {
            Tensors::Safetensors(shards) => shards.tensor(name, shape),
            Tensors::Gguf(tensors) => tensors.tensor(name, shape),
            Tensors::Random(tensors) => tensors.tensor(name, shape),
        }
    }

    /// A matrix (out, in), whose shape must be `shape`, as it is stored. Of random numbers all are made at once; else nothing
    /// is read.
    pub(crate) fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<RawMatrix> {
        match &self.0 {
            Tensors::Safetensors(shards) => shards.matrix(name, shape),
            Tensors::Gguf(tensors) => tensors.matrix(name, shape),
            Tensors::Random(tensors) => Ok(tensors.matrix(name, shape)),
        }
    }

    /// Whether it is a GGUF file that has most weights of its matrices in 4 bits.
    pub(crate) fn in_four_bits(&self) -> bool {
        matches!(&self.0, Tensors::Gguf(tensors) if tensors.in_four_bits())
    }

    /// How the elements of all tensors that can be read are stored, in no order.
    pub fn kinds(&self) -> Vec<TensorType> {
        match &self.0 {
            Tensors::Safetensors(shards) => shards.names().filter_map(|name| shards.kind(name).ok()).collect(),
            Tensors::Gguf(tensors) => tensors.kinds(),
            Tensors::Random(_) => vec![TensorType::BF16],
        }
    }

    /// How the elements of a tensor are stored.
    pub fn kind(&self, name: &str) -> Result<TensorType> {
        match &self.0 {
            Tensors::Safetensors(shards) => shards.kind(name),
            Tensors::Gguf(tensors) => tensors.kind(name),
            Tensors::Random(_) => Ok(TensorType::BF16),
        }
    }
}
