//! The most of everything that is read from a file.

/// Most tensors of a file. A layer has about 12; the largest models, with all experts apart, have some thousands.
pub const TENSORS_MAX: u64 = 1 << 16;

/// Most metadata entries of a file. Real files have less than a hundred.
pub const METADATA_MAX: u64 = 1 << 14;

/// Most bytes of a metadata key. The format allows 65535; keys are quoted in messages.
pub const KEY_BYTES_MAX: u64 = 256;

/// Most bytes of a tensor's name, as the format has it.
pub const NAME_BYTES_MAX: u64 = 64;

/// Most dimensions of a tensor, as the format has it.
pub const DIMENSIONS_MAX: u32 = 4;

/// Most bytes of a string. The longest are whole `tokenizer.json` files.
pub const STRING_BYTES_MAX: u64 = 1 << 28;

/// Most elements of an array: as many as the largest vocabulary that is run has tokens.
pub const ARRAY_LENGTH_MAX: u64 = 1 << 24;

/// Most elements of a tensor.
pub const ELEMENTS_MAX: u64 = 1 << 40;

/// Largest `general.alignment`, in bytes.
pub const ALIGNMENT_MAX: u32 = 1 << 20;
