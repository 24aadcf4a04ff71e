//! What keeps a GGUF file from being run, or a model from being written as one.

use espalier_gguf::GgufError;

/// Why a GGUF file was refused as a model, or a model cannot be one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GgufFault {
    /// An entry of the metadata is missing, or of another type.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// An architecture that is not run.
    #[error("`general.architecture` is {found:?}, expected one of {known}")]
    Architecture {
        /// Its name.
        found: String,
        /// Those that are run.
        known: &'static str,
    },
    /// A part of a model.
    #[error(
        "it is one of {files} files of a split model, and only whole ones are read; `llama-gguf-split --merge` makes one"
    )]
    Split {
        /// How many files there are.
        files: usize,
    },
    /// An entry whose meaning is not implemented.
    #[error("`{key}` is {found}, and only {supported} is run")]
    Unsupported {
        /// Its key.
        key: String,
        /// Its value, or that there is one.
        found: String,
        /// What would be run.
        supported: &'static str,
    },
    /// A number that must be finite is not.
    #[error("`{key}` is {found}, which is not finite")]
    NotFinite {
        /// Its key.
        key: String,
        /// Its value.
        found: f32,
    },
    /// Rotary frequencies that are divided by a factor each, and stretched besides.
    #[error("it has `rope_freqs.weight`, and its rotary frequencies are stretched besides, as {scaling:?}")]
    RopeFactors {
        /// How they are stretched.
        scaling: String,
    },
    /// Not one factor for each pair of rotated dimensions.
    #[error(
        "`rope_freqs.weight` has shape {found:?}, expected [{pairs}]: a factor for each pair of rotated dimensions"
    )]
    RopeFactorsShape {
        /// The shape.
        found: Vec<usize>,
        /// Pairs of rotated dimensions.
        pairs: usize,
    },
    /// Something that a GGUF file has no way to say.
    #[error("`{what}` is {found}, which a GGUF file cannot say")]
    Inexpressible {
        /// What it is.
        what: &'static str,
        /// Its value.
        found: String,
    },
    /// A tensor that the model would be run without.
    #[error("it has a tensor {name:?}, which models of architecture {architecture} with its metadata do not have")]
    StrayTensor {
        /// Its name.
        name: String,
        /// The architecture.
        architecture: &'static str,
    },
}
