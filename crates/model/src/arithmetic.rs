//! What a model's matrices are multiplied in.

use std::fmt;
use std::str::FromStr;

use crate::error::ModelError;

/// The arithmetic of a loaded model's products. It is part of what the model is: two arithmetics give two texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Weights as they are stored, inputs and sums in f32.
    #[default]
    F32,
    /// Weights and inputs rounded to 8 bits in groups of 32 along the inner dimension, each with a scale; exact sums
    /// within a group, f32 beyond it.
    Int8,
}

impl Arithmetic {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::F32, Self::Int8];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Int8 => "int8",
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arithmetic {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        let known = Self::ALL.into_iter().find(|arithmetic| arithmetic.name() == name);
        known.ok_or_else(|| ModelError::Arithmetic { found: name.to_owned() })
    }
}
