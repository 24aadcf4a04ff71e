//! Transformer checkpoints in Hugging Face format, run on the CPU.
//!
//! [`Checkpoint`] reads a folder; [`Decoder`] packs its weights and runs rows of many sequences in one forward pass,
//! each row attending to its own path through a tree; [`KvCache`] keeps the accepted path. Logits are the same bits
//! however many rows or threads share the pass. [`Reference`] is the slow, readable oracle.

mod activation;
mod arena;
mod attention;
mod calibrate;
mod checkpoint;
mod config;
mod decoder;
mod disjoint;
mod error;
mod files;
mod forward;
mod golden;
mod kernels;
mod kv_cache;
mod linear;
mod machine;
mod names;
mod pool;
mod raw_model;
mod reference;
mod rope;
mod weights;

pub use checkpoint::Checkpoint;
pub use config::{Activation, ConfigFault, Family, Llama3, ModelConfig, Norm, NormKind, RopeConfig, RopeScaling, Yarn};
pub use decoder::{Decoder, LoadOptions, WeightFormat};
pub use error::{ModelError, Result};
pub use forward::{Depth, Logits, Output, ROWS_MAX, Row, Segment, Workspace};
pub use golden::{Comparison, Golden, Matrix, TOLERANCE, Tap};
pub use kv_cache::{BLOCK, KvCache};
pub use raw_model::{RawLayer, RawLinear, RawMlp, RawModel, RawNorm};
pub use reference::{Reference, ReferenceOutput};
pub use rope::RotaryTable;
pub use weights::Weights;
