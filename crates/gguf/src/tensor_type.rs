//! How the elements of a tensor are stored.

use std::fmt;

/// A way to store elements: in blocks of so many, each of so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(non_camel_case_types, reason = "the format's own names")]
pub enum TensorType {
    /// 32-bit floats.
    F32,
    /// IEEE 16-bit floats.
    F16,
    /// 16-bit floats with the exponent of 32-bit ones.
    BF16,
    /// 32 elements: a scale, and 4 bits each.
    Q4_0,
    /// 32 elements: a scale and a minimum, and 4 bits each.
    Q4_1,
    /// 32 elements: a scale, and 5 bits each.
    Q5_0,
    /// 32 elements: a scale and a minimum, and 5 bits each.
    Q5_1,
    /// 32 elements: a scale, and 8 bits each.
    Q8_0,
    /// 256 elements: two scales, 8 times 6 bits of scale and 6 of minimum, and 4 bits each.
    Q4_K,
    /// 256 elements: two scales, 8 times 6 bits of scale and 6 of minimum, and 5 bits each.
    Q5_K,
    /// 256 elements: a scale, 16 times 8 bits of scale, and 6 bits each.
    Q6_K,
}

impl TensorType {
    /// The types that are read, for messages.
    pub const KNOWN: &str = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K";

    /// All types.
    const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
    ];

    /// The type of a number, if it is read.
    pub(crate) fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Its number in files.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q5_0 => 6,
            Self::Q5_1 => 7,
            Self::Q8_0 => 8,
            Self::Q4_K => 12,
            Self::Q5_K => 13,
            Self::Q6_K => 14,
            Self::BF16 => 30,
        }
    }

    /// Elements of a block.
    pub fn block_elements(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4_K | Self::Q5_K | Self::Q6_K => 256,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
        }
    }

    /// Bytes of so many elements, which fill whole blocks.
    pub fn bytes_of(self, elements: usize) -> usize {
        (elements / self.block_elements()).saturating_mul(self.block_bytes())
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What the type of a number is called that is not read.
pub(crate) fn name_of_other(number: u32) -> &'static str {
    match number {
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => "unknown",
    }
}
