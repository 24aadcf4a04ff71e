//! Transformer checkpoints in Hugging Face format, and GGUF files, run on the CPU, or on devices of candle's.
//!
//! [`Checkpoint`] reads a folder or a file; [`Decoder`] packs its weights and runs rows of many sequences in one forward pass,
//! each row attending to its own path through a tree; [`KvCache`] keeps the accepted path. Logits are the same bits
//! however many rows or threads share the pass. [`Reference`] is the slow, readable oracle.
//!
//! [`DraftModel`] opens the drafters of the papers, whatever their kind: it is a [`Decoder`] that rows may leave after
//! several layers ([`Decoder::forward_exits`]), that reads another model's hidden states ([`Decoder::append_states`]), or
//! that shares another's first layers. [`Predictor`] says how likely a target is to take what one of them drafts.

mod activation;
mod arena;
mod arithmetic;
mod attention;
mod calibrate;
mod checkpoint;
mod compute;
mod config;
mod decoder;
mod device;
mod device_kind;
mod disjoint;
mod draft;
mod error;
mod exits;
mod files;
mod fingerprint;
mod forward;
mod gguf;
mod golden;
mod inventory;
mod kernels;
mod kv_cache;
mod linear;
mod load_options;
mod machine;
mod memory;
mod model_info;
mod names;
mod packed;
mod parallel;
mod pass;
mod placed;
mod pool;
mod predictor;
mod processor;
mod raw_matrix;
mod raw_model;
mod raw_parts;
mod reference;
mod rope;
mod rotations;
mod row_lists;
mod rows;
mod source;
mod states;
mod team;
mod weights;
mod workspace;

pub use arithmetic::{Arithmetic, UnknownArithmetic, WeightFormat};
pub use checkpoint::Checkpoint;
pub use compute::{Compute, ComputeConflict, Quantize, UnknownQuantize};
pub use config::{Activation, ConfigFault, Family, Llama3, ModelConfig, Norm, NormKind, RopeConfig, RopeScaling, Yarn};
pub use decoder::Decoder;
pub use device::{CudaFault, open_device};
pub use device_kind::{DeviceKind, UnknownDevice};
pub use draft::{DraftConfig, DraftFault, DraftFolder, DraftKind, DraftModel, TargetCard};
pub use error::{ModelError, Result};
pub use espalier_gguf::{TensorType, model_name};
pub use exits::AtExit;
pub use fingerprint::fingerprint;
pub use forward::Output;
pub use gguf::{GgufExport, GgufFault, GgufWritten};
pub use golden::{Comparison, Golden, LOGIT_TOLERANCE, Matrix, Tap};
pub use kernels::InstructionSet;
pub use kv_cache::{BLOCK, BlockCounts, BlockPool, KvCache, PoolFault, Tenant};
pub use load_options::LoadOptions;
pub use parallel::{Degree, Parallel, UnknownDegree};
pub use predictor::{PREDICTOR_STEPS, Predictor, PredictorConfig, PredictorKind, normalise_state};
pub use processor::Processor;
pub use raw_matrix::RawMatrix;
pub use raw_model::{RawLayer, RawLinear, RawMlp, RawModel, RawNorm, RawStates};
pub use reference::{Reference, ReferenceOutput};
pub use rope::RotaryTable;
pub use rows::{Asked, BestOf, Logits, ROWS_MAX, Row, Segment};
pub use states::States;
pub use team::Team;
pub use weights::Weights;
pub use workspace::Workspace;
