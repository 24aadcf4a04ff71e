//! The rules that a configuration can break.

/// Why a `config.json` was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFault {
    /// The text is not JSON, or a field has another type than its name promises.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A field without a default is absent.
    #[error("`{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A number is outside its range.
    #[error("`{field}` is {found}, outside {min}..={max}")]
    Range {
        /// The field.
        field: &'static str,
        /// The value in the file.
        found: f64,
        /// The smallest legal value.
        min: f64,
        /// The largest legal value.
        max: f64,
    },
    /// One dimension must be a multiple of another.
    #[error("`{field}` is {found}, not a multiple of `{of}` = {divisor}")]
    Divisible {
        /// The field that is divided.
        field: &'static str,
        /// Its value.
        found: usize,
        /// The field that divides.
        of: &'static str,
        /// Its value.
        divisor: usize,
    },
    /// A name is not among those that are implemented.
    #[error("`{field}` is \"{found}\", expected one of {}", known.join(", "))]
    Unknown {
        /// The field.
        field: &'static str,
        /// The value in the file.
        found: String,
        /// The values that are implemented.
        known: &'static [&'static str],
    },
    /// The rotary dimension is odd or empty, so it has no two halves to rotate.
    #[error("{found} of {head_dim} head dimensions would be rotated, expected an even number from 2 to {head_dim}")]
    RotaryDim {
        /// The dimensions that the configuration rotates.
        found: usize,
        /// The size of a head.
        head_dim: usize,
    },
    /// Not one divisor for each pair of rotated dimensions.
    #[error("`divisors` has {found} entries for {pairs} pairs of rotated dimensions")]
    Divisors {
        /// The number of entries.
        found: usize,
        /// Pairs of rotated dimensions.
        pairs: usize,
    },
    /// `layer_types` does not have one entry per layer.
    #[error("`layer_types` has {found} entries for {layers} layers")]
    LayerTypes {
        /// The number of entries.
        found: usize,
        /// The number of layers.
        layers: usize,
    },
    /// A layer is declared to slide, but the window's size is not given.
    #[error("layer {layer} has sliding attention, but `sliding_window` is off")]
    NoWindow {
        /// The layer, counted from 0.
        layer: usize,
    },
    /// The checkpoint is stored in a quantized form.
    #[error("`quantization_config` is present: quantized checkpoints are not supported")]
    Quantized,
}
