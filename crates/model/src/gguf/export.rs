//! A checkpoint, written as a GGUF file that llama.cpp reads too.

use std::io::Write;

use candle_core::DType;
use espalier_gguf::{Array, GgufError, GgufWriter, Metadata, NewTensor, TensorType, Value, WriteError};

use super::metadata::metadata;
use super::own_keys;
use super::places::{Place, places};
use super::rope::FREQUENCY_FACTORS;
use crate::checkpoint::Checkpoint;
use crate::config::{ModelConfig, RopeScaling};
use crate::error::{ModelError, Result};
use crate::names::Names;
use crate::rope::llama3_divisors;
use crate::weights::Weights;

/// How a checkpoint becomes a GGUF file.
#[derive(Debug, Clone, Default)]
pub struct GgufExport {
    /// The type of matrices, the embedding and the head included; as they are stored when none. Norms and biases are F32.
    pub kind: Option<TensorType>,
    /// What else the file says: its tokenizer. It goes before what the model's configuration says.
    pub metadata: Metadata,
    /// The layers after which a drafter with several exits may answer.
    pub exits: Option<Vec<u32>>,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GgufWritten {
    /// How many tensors.
    pub tensors: usize,
    /// How many elements they have.
    pub elements: usize,
}

impl GgufExport {
    /// Writes a file. `progress` hears `(tensors written, tensors in all)`.
    ///
    /// # Errors
    /// A model that GGUF cannot describe, a type that is not written or does not suit its matrices, tensors that are
    /// missing, and what `out` refuses.
    pub fn write(
        &self,
        checkpoint: &Checkpoint,
        out: impl Write,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<GgufWritten> {
        let weights = checkpoint.weights()?;
        let tensors = self.tensors(checkpoint, &weights)?;
        let announced: Vec<NewTensor> = tensors.iter().map(|tensor| tensor.announced.clone()).collect();
        let metadata = self.describe(checkpoint, &weights)?;
        let mut writer = GgufWriter::begin(out, &metadata, &announced)?;
        for (done, tensor) in tensors.iter().enumerate() {
            writer.tensor(&tensor.bytes(&weights)?)?;
            progress(done + 1, tensors.len());
        }
        writer.finish()?;
        let elements = announced.iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum();
        Ok(GgufWritten { tensors: tensors.len(), elements })
    }

    /// All that the file says of itself.
    fn describe(&self, checkpoint: &Checkpoint, weights: &Weights) -> Result<Metadata> {
        let refusal = |fault| ModelError::Gguf { path: checkpoint.path.clone(), fault: Box::new(fault) };
        let mut all = metadata(&checkpoint.config).map_err(refusal)?;
        let embedding = Names::of(checkpoint.config.family).embedding;
        let kind = self.kind_of(weights, &format!("{embedding}.weight"))?;
        let own = [
            ("general.name", Value::String(checkpoint.name().to_owned())),
            ("general.file_type", Value::U32(file_type(kind))),
        ];
        all.extend(own.map(|(key, value)| (key.to_owned(), value)));
        all.extend(
            self.exits.iter().map(|exits| (own_keys::EXITS.to_owned(), Value::Array(Array::U32(exits.clone())))),
        );
        all.extend(self.metadata.iter().map(|(key, value)| (key.to_owned(), value.clone())));
        Ok(all)
    }

    /// The tensors of the file, in order.
    fn tensors(&self, checkpoint: &Checkpoint, weights: &Weights) -> Result<Vec<Written>> {
        let mut tensors: Vec<Written> = Written::factors(&checkpoint.config).into_iter().collect();
        for place in places(&checkpoint.config) {
            let vector = place.shape.len() == 1;
            let kind = if vector { TensorType::F32 } else { self.kind_of(weights, &place.checkpoint_name)? };
            let announced = NewTensor { name: place.name.clone(), shape: place.shape.clone(), kind };
            tensors.push(Written { announced, contents: Contents::Of(place) });
        }
        Ok(tensors)
    }

    /// The type of a matrix in the file.
    fn kind_of(&self, weights: &Weights, name: &str) -> Result<TensorType> {
        let kind = self.kind.map_or_else(|| weights.kind(name), Ok)?;
        if kind.is_written() { Ok(kind) } else { Err(WriteError::from(GgufError::NotWritten { kind }).into()) }
    }
}

/// A tensor that is written.
struct Written {
    announced: NewTensor,
    contents: Contents,
}

/// Where its elements come from.
enum Contents {
    /// They are these.
    Factors(Vec<f32>),
    /// A tensor of the checkpoint.
    Of(Place),
}

impl Written {
    /// What rotary frequencies are divided by, for llama.cpp, where it cannot be said otherwise.
    fn factors(config: &ModelConfig) -> Option<Self> {
        let factors = match &config.rope.scaling {
            RopeScaling::Llama3(scaling) => llama3_divisors(&config.rope, scaling),
            RopeScaling::Divided { divisors } => divisors.clone(),
            _ => return None,
        };
        let (name, shape) = (FREQUENCY_FACTORS.to_owned(), vec![factors.len()]);
        let announced = NewTensor { name, shape, kind: TensorType::F32 };
        Some(Self { announced, contents: Contents::Factors(factors) })
    }

    fn bytes(&self, weights: &Weights) -> Result<Vec<u8>> {
        let elements = match &self.contents {
            Contents::Factors(factors) => factors.clone(),
            Contents::Of(place) => {
                let tensor = weights.tensor(&place.checkpoint_name, &place.shape)?;
                place.order.to_gguf(&tensor.to_dtype(DType::F32)?)?.flatten_all()?.to_vec1()?
            }
        };
        Ok(self.announced.kind.from_f32(&elements).map_err(WriteError::from)?)
    }
}

/// `general.file_type` of a file whose matrices are of this type.
fn file_type(kind: TensorType) -> u32 {
    match kind {
        TensorType::F32 => 0,
        TensorType::F16 => 1,
        TensorType::Q4_0 => 2,
        TensorType::Q8_0 => 7,
        TensorType::Q4_1 => 3,
        TensorType::Q5_0 => 8,
        TensorType::Q5_1 => 9,
        TensorType::Q4_K => 14,
        TensorType::Q5_K => 16,
        TensorType::Q6_K => 18,
        TensorType::BF16 => 32,
    }
}
