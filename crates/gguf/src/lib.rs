//! GGUF files, the format of llama.cpp: typed metadata, and tensors that may be quantised.
//!
//! [`Gguf::parse`] reads the header of a file that lies in memory, mostly because it is mapped there, and believes
//! nothing of it: counts, lengths, offsets and shapes are checked against limits and against the bytes that are there
//! before anything is made of them. [`Metadata`] answers by key and type. [`Tensor::to_f32`] undoes the
//! quantisation; [`TensorType::to_f32`] does so for some blocks, and [`TensorType::four_bits`] leaves what they hold as it is.
//! [`GgufFile`] maps a file for it, and [`find`] says which one a path stands for. [`GgufWriter`] writes a file.
//!
//! Versions 2 and 3 are read, little-endian. All integers of the format are; a file lies as follows:
//!
//! | part | contents |
//! |---|---|
//! | header | `GGUF`, u32 version, u64 number of tensors, u64 number of metadata entries |
//! | an entry | string key, u32 type, value |
//! | a string | u64 bytes, UTF-8 |
//! | an array | u32 type of the elements, u64 elements, the elements one after the other |
//! | a tensor | string name, u32 dimensions, u64 each (the fastest first), u32 type, u64 offset |
//! | data | from the next multiple of `general.alignment` (32), which offsets count from and are multiples of |

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod blocks;
mod cursor;
mod encode;
mod error;
mod file;
mod find;
mod groups;
mod layout;
mod limits;
mod listing;
mod metadata;
mod on_disk;
mod quantise;
mod tensor;
mod tensor_type;
mod value;
mod writer;

pub use error::{GgufError, Result};
pub use file::Gguf;
pub use find::{find, model_name};
pub use groups::{EightBits, FourBits};
pub use limits::{
    ALIGNMENT_MAX, ARRAY_LENGTH_MAX, DIMENSIONS_MAX, ELEMENTS_MAX, KEY_BYTES_MAX, METADATA_MAX, NAME_BYTES_MAX,
    STRING_BYTES_MAX, TENSORS_MAX,
};
pub use metadata::{FromValue, Metadata};
pub use on_disk::{FileError, GgufFile};
pub use tensor::{Tensor, TensorInfo};
pub use tensor_type::TensorType;
pub use value::{Array, Value};
pub use writer::{GgufWriter, NewTensor, WriteError};
