//! What keys and values are kept as.

use super::bytes::Bytes;
use super::floats::Floats;
use super::layout::Layout;
use super::tiles::Tiles;
use crate::arithmetic::Arithmetic;

/// How the keys and values of a head lie in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvFormat {
    /// In f32.
    Floats,
    /// Rounded to bf16, as a matrix unit multiplies them.
    Tiles,
    /// Rounded to bytes.
    Bytes,
}

impl KvFormat {
    /// What goes with a model's arithmetic.
    pub(crate) fn of(arithmetic: Arithmetic) -> Self {
        match arithmetic {
            Arithmetic::Bf16 => Self::Tiles,
            Arithmetic::F32 | Arithmetic::Bf16Dot => Self::Floats,
            Arithmetic::Int8 | Arithmetic::Int8Q4 => Self::Bytes,
        }
    }

    /// Where elements lie.
    pub(super) fn layout(self) -> &'static dyn Layout {
        match self {
            Self::Floats => &Floats,
            Self::Tiles => &Tiles,
            Self::Bytes => &Bytes,
        }
    }
}
