//! What a model's matrices are multiplied in.

use std::fmt;
use std::str::FromStr;

/// The arithmetic of a loaded model's products. It is part of what the model is: two arithmetics give two texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Weights as they are stored, inputs and sums in f32.
    #[default]
    F32,
    /// Weights and inputs rounded to bf16, sums in f32, in the order of a matrix unit that multiplies tiles.
    Bf16,
    /// The same in the order of dot products of pairs.
    Bf16Dot,
    /// Weights and inputs rounded to 8 bits in groups of 32 along the inner dimension, each with a scale; exact sums
    /// within a group, f32 beyond it.
    Int8,
    /// The same with weights rounded to 4 bits, each group with a scale and a smallest weight; the head's stay in 8.
    Int8Q4,
}

impl Arithmetic {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::F32, Self::Bf16, Self::Bf16Dot, Self::Int8, Self::Int8Q4];

    /// Those that devices other than the processor compute in.
    pub const ON_DEVICES: [Self; 2] = [Self::F32, Self::Bf16];

    /// Their names, for messages.
    pub const KNOWN: &str = "f32, bf16, bf16-dot, int8 and int8-q4";

    /// Its revision, which grows when a version of this program computes other bits in it: replicas of two revisions do not
    /// take over from each other in mid-text.
    pub fn revision(self) -> u32 {
        match self {
            Self::F32 | Self::Bf16 | Self::Bf16Dot | Self::Int8 => 1,
            Self::Int8Q4 => 2,
        }
    }

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Bf16Dot => "bf16-dot",
            Self::Int8 => "int8",
            Self::Int8Q4 => "int8-q4",
        }
    }
}

/// How packed matrices are held in memory. Arithmetic is in f32 whatever the format, so the results of a bf16
/// checkpoint are the same bits in both; a step reads half the bytes in the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightFormat {
    /// bf16 stays bf16, anything else becomes f32.
    #[default]
    Stored,
    /// f32.
    F32,
}

/// No arithmetic has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no arithmetic is called {found:?}, only {} are known", Arithmetic::KNOWN)]
pub struct UnknownArithmetic {
    found: String,
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arithmetic {
    type Err = UnknownArithmetic;

    fn from_str(name: &str) -> Result<Self, UnknownArithmetic> {
        let known = Self::ALL.into_iter().find(|arithmetic| arithmetic.name() == name);
        known.ok_or_else(|| UnknownArithmetic { found: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_arithmetic_goes_by_a_name_and_another_name_is_refused() {
        for arithmetic in Arithmetic::ALL {
            assert_eq!(arithmetic.to_string().parse::<Arithmetic>().unwrap(), arithmetic);
            assert!(Arithmetic::KNOWN.contains(arithmetic.name()));
        }
        let refusal = "fp8".parse::<Arithmetic>().unwrap_err().to_string();
        assert_eq!(refusal, "no arithmetic is called \"fp8\", only f32, bf16, bf16-dot, int8 and int8-q4 are known");
    }
}
