//! What keys and values are kept as.

use super::bytes::Bytes;
use super::floats::Floats;
use super::layout::Layout;
use super::tiles::Tiles;
use crate::arithmetic::Arithmetic;
use crate::kernels::Bf16Order;

/// How the keys and values of a head lie in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvFormat {
    /// In f32.
    Floats,
    /// Rounded to bf16, to be multiplied in an order.
    Bf16(Bf16Order),
    /// Rounded to bytes.
    Bytes,
}

impl KvFormat {
    /// What goes with a model's arithmetic.
    pub(crate) fn of(arithmetic: Arithmetic) -> Self {
        match arithmetic {
            Arithmetic::F32 => Self::Floats,
            Arithmetic::Bf16 => Self::Bf16(Bf16Order::Tiles),
            Arithmetic::Bf16Dot => Self::Bf16(Bf16Order::Dots),
            Arithmetic::Int8 | Arithmetic::Int8Q4 => Self::Bytes,
        }
    }

    /// Where elements lie.
    pub(super) fn layout(self) -> &'static dyn Layout {
        match self {
            Self::Floats => &Floats,
            Self::Bf16(_) => &Tiles,
            Self::Bytes => &Bytes,
        }
    }
}
