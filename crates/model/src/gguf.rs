//! A model that is one GGUF file, seen as a checkpoint in Hugging Face format: its configuration, the names of its
//! tensors, and the order of their rows.

mod architecture;
mod config;
mod export;
mod fault;
mod fields;
mod keys;
mod metadata;
mod model;
mod own_keys;
mod places;
mod rope;
mod row_order;
mod tensors;

pub use export::{GgufExport, GgufWritten};
pub use fault::GgufFault;
pub(crate) use model::GgufModel;
pub(crate) use tensors::GgufTensors;
