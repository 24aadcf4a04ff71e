//! What can be wrong with a GGUF file.

use crate::tensor_type::TensorType;

/// A file that cannot be read, or does not hold what it was asked for.
///
/// Every message is one whole sentence with the field, the value and the limit. Names from the file are quoted, with
/// their control characters escaped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The first four bytes are others.
    #[error("a GGUF file begins with \"GGUF\", this one with \"{}\"", found.escape_ascii())]
    Magic {
        /// The bytes.
        found: [u8; 4],
    },
    /// A version that is not read.
    #[error("GGUF version {found} is not read, only 2 and 3 are")]
    Version {
        /// The version.
        found: u32,
    },
    /// The most significant byte of each integer comes first.
    #[error("the file is big-endian GGUF of version {version}, and only little-endian is read")]
    BigEndian {
        /// The version.
        version: u32,
    },
    /// The file ends too early.
    #[error("{field} needs {needed} bytes, but {left} are left in the file")]
    Truncated {
        /// What would lie there.
        field: String,
        /// Its size in bytes, or the least that it can be.
        needed: u64,
        /// How many bytes there are from its beginning.
        left: u64,
    },
    /// A count or a length is too large.
    #[error("{field} is {found}, and at most {limit} is read")]
    Limit {
        /// What is too large.
        field: String,
        /// Its value.
        found: u64,
        /// The largest value that is read.
        limit: u64,
    },
    /// A string is not text.
    #[error("{field} is not UTF-8 after its first {valid} bytes")]
    Utf8 {
        /// The string.
        field: String,
        /// How many of its bytes are UTF-8.
        valid: u64,
    },
    /// A truth value is neither.
    #[error("{field} is {found}, and a bool is 0 or 1")]
    Bool {
        /// The value.
        field: String,
        /// Its byte.
        found: u8,
    },
    /// A type of metadata that there is not.
    #[error("{field} has type {found}, and the types are 0 to 12")]
    ValueType {
        /// The value.
        field: String,
        /// The number of its type.
        found: u32,
    },
    /// Arrays in arrays in arrays.
    #[error("{field} nests arrays 3 deep, and at most {limit} levels are read")]
    Nested {
        /// The value.
        field: String,
        /// The most levels.
        limit: u32,
    },
    /// Two metadata entries of one key.
    #[error("there are two metadata entries {key:?}, and keys are unique")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// Two tensors of one name.
    #[error("there are two tensors {name:?}, and names are unique")]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// An alignment that cannot be one.
    #[error("general.alignment is {found}, and it must be a power of two up to {limit}")]
    Alignment {
        /// Its value.
        found: u32,
        /// The largest that is read.
        limit: u32,
    },
    /// Too few or too many dimensions.
    #[error("tensor {name:?} has {found} dimensions, and 1 to {limit} are read")]
    Dimensions {
        /// The tensor.
        name: String,
        /// How many it has.
        found: u32,
        /// The most that are read.
        limit: u32,
    },
    /// A tensor without elements, or with more than can be counted.
    #[error("tensor {name:?} has shape {shape:?}, and 1 to {limit} elements are read")]
    Elements {
        /// The tensor.
        name: String,
        /// Its shape, the fastest dimension last.
        shape: Vec<u64>,
        /// The most elements that are read.
        limit: u64,
    },
    /// A type of tensor that is not read, or that there is not.
    #[error("tensor {name:?} is of type {type_name} ({number}), and {known} are read", known = TensorType::KNOWN)]
    TensorType {
        /// The tensor.
        name: String,
        /// The number of its type.
        number: u32,
        /// What the type is called.
        type_name: &'static str,
    },
    /// A row that is no whole number of blocks.
    #[error("tensor {name:?} has rows of {found} elements, and {kind} takes multiples of {block}")]
    Block {
        /// The tensor.
        name: String,
        /// Elements of its rows.
        found: u64,
        /// Its type.
        kind: TensorType,
        /// Elements of a block.
        block: u64,
    },
    /// An offset that is no multiple of the alignment.
    #[error("tensor {name:?} lies at offset {offset}, which is no multiple of the alignment, {alignment}")]
    Misaligned {
        /// The tensor.
        name: String,
        /// Where it lies in the data.
        offset: u64,
        /// `general.alignment`, in bytes.
        alignment: u64,
    },
    /// A tensor that lies outside the file.
    #[error("tensor {name:?} has {bytes} bytes at offset {offset}, and the data of the file has {limit}")]
    OutOfFile {
        /// The tensor.
        name: String,
        /// Its size in bytes.
        bytes: u64,
        /// Where it lies in the data.
        offset: u64,
        /// Bytes of the data.
        limit: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensor {name:?} begins at byte {start} of the file, before {before:?} ends at byte {end}")]
    Overlap {
        /// The tensor that begins later.
        name: String,
        /// Where it begins.
        start: u64,
        /// The tensor that begins earlier.
        before: String,
        /// Where that ends.
        end: u64,
    },
    /// The metadata lack an entry.
    #[error("the metadata have no entry {key:?}")]
    MissingKey {
        /// Its key.
        key: String,
    },
    /// An entry is of another type.
    #[error("metadata entry {key:?} is {found}, expected {wanted}")]
    WrongType {
        /// The key.
        key: String,
        /// The type that was asked for.
        wanted: &'static str,
        /// The type in the file.
        found: String,
    },
    /// A type of tensor that is read only.
    #[error("tensors of type {kind} are not written, only {written} are", written = TensorType::WRITTEN)]
    NotWritten {
        /// The type.
        kind: TensorType,
    },
    /// The file has no such tensor.
    #[error("the file has no tensor {name:?}")]
    MissingTensor {
        /// Its name.
        name: String,
    },
}

/// The result of reading a GGUF file.
pub type Result<T, E = GgufError> = std::result::Result<T, E>;
