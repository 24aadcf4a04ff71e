//! What keys and values are kept as.

use super::floats::Floats;
use super::layout::{Head, Layout, Place};
use super::tiles::Tiles;
use crate::arithmetic::Arithmetic;

/// How the keys and values of a head lie in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvFormat {
    /// In f32.
    Floats,
    /// Rounded to bf16, as a matrix unit multiplies them.
    Tiles,
}

impl KvFormat {
    /// What goes with a model's arithmetic.
    pub(crate) fn of(arithmetic: Arithmetic) -> Self {
        match arithmetic {
            Arithmetic::Bf16 => Self::Tiles,
            Arithmetic::F32 | Arithmetic::Int8 | Arithmetic::Int8Q4 => Self::Floats,
        }
    }

    /// Bytes of an element.
    pub(crate) fn element_bytes(self) -> usize {
        match self {
            Self::Floats => size_of::<f32>(),
            Self::Tiles => size_of::<u16>(),
        }
    }

    /// Bytes of a block's keys of one head.
    pub(super) fn key_bytes(self, head_dim: usize) -> usize {
        match self {
            Self::Floats => Floats::key_bytes(head_dim),
            Self::Tiles => Tiles::key_bytes(head_dim),
        }
    }

    /// Bytes of a block's values of one head.
    pub(super) fn value_bytes(self, head_dim: usize) -> usize {
        match self {
            Self::Floats => Floats::value_bytes(head_dim),
            Self::Tiles => Tiles::value_bytes(head_dim),
        }
    }

    /// See [`Layout::store`].
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn store(self, head: Head, row: usize, key: &[f32], value: &[f32]) {
        // SAFETY: passed on to the caller.
        unsafe {
            match self {
                Self::Floats => Floats::store(head, row, key, value),
                Self::Tiles => Tiles::store(head, row, key, value),
            }
        }
    }

    /// See [`Layout::copy`].
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn copy(self, from: Place, to: Place, rows: usize) {
        // SAFETY: passed on to the caller.
        unsafe {
            match self {
                Self::Floats => Floats::copy(from, to, rows),
                Self::Tiles => Tiles::copy(from, to, rows),
            }
        }
    }
}
