//! The order of rows in which a GGUF file differs from the checkpoint that it was made of.

use candle_core::Tensor;

use crate::error::Result;
use crate::row_lists::{exchanged, ordered};

/// How rows are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// As in the checkpoint.
    Same,
    /// The two elements of a head that turn together are neighbours, and half a head apart in the checkpoint.
    Pairs {
        /// Heads that the rows belong to.
        heads: usize,
    },
    /// All rows of queries come first, then those of keys and of values; in the checkpoint all three of a head are
    /// together.
    Parts {
        /// Heads that the rows belong to.
        heads: usize,
    },
}

impl RowOrder {
    /// Where in a GGUF file the rows of the checkpoint are, if they are elsewhere.
    pub(super) fn in_gguf(self, rows: usize) -> Option<Vec<usize>> {
        match self {
            Self::Same => None,
            Self::Pairs { heads } => Some(exchanged([heads, rows / (2 * heads), 2], [1, 2])),
            Self::Parts { heads } => Some(exchanged([3, heads, rows / (3 * heads)], [0, 1])),
        }
    }

    /// Where in the checkpoint the rows of a GGUF file are, if they are elsewhere.
    fn in_checkpoint(self, rows: usize) -> Option<Vec<usize>> {
        match self {
            Self::Same => None,
            Self::Pairs { heads } => Some(exchanged([heads, 2, rows / (2 * heads)], [1, 2])),
            Self::Parts { heads } => Some(exchanged([heads, 3, rows / (3 * heads)], [0, 1])),
        }
    }

    /// A tensor of a GGUF file as the checkpoint has it.
    pub(super) fn to_checkpoint(self, tensor: &Tensor) -> Result<Tensor> {
        self.in_gguf(tensor.dim(0)?).map_or_else(|| Ok(tensor.clone()), |rows| ordered(tensor, &rows))
    }

    /// A tensor of the checkpoint as a GGUF file has it.
    pub(super) fn to_gguf(self, tensor: &Tensor) -> Result<Tensor> {
        self.in_checkpoint(tensor.dim(0)?).map_or_else(|| Ok(tensor.clone()), |rows| ordered(tensor, &rows))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use candle_core::Device;

    use super::*;

    /// Rows 0 to `rows`, each filled with its number.
    fn numbered(rows: usize) -> Tensor {
        let rows = Tensor::from_vec((0..rows).map(|row| row as f32).collect(), rows, &Device::Cpu).unwrap();
        Tensor::stack(&[&rows, &rows], 1).unwrap()
    }

    #[test]
    fn rows_are_ordered_as_llama_cpp_s_converter_orders_them() {
        let first = |tensor: &Tensor| tensor.get_on_dim(1, 0).unwrap().to_vec1::<f32>().unwrap();
        let pairs = RowOrder::Pairs { heads: 2 }.to_gguf(&numbered(8)).unwrap();
        assert_eq!(first(&pairs), [0., 2., 1., 3., 4., 6., 5., 7.]);
        let parts = RowOrder::Parts { heads: 2 }.to_gguf(&numbered(12)).unwrap();
        assert_eq!(first(&parts), [0., 1., 6., 7., 2., 3., 8., 9., 4., 5., 10., 11.]);
    }

    #[test]
    fn every_order_can_be_undone() {
        for order in [RowOrder::Same, RowOrder::Pairs { heads: 3 }, RowOrder::Parts { heads: 3 }] {
            let rows = numbered(36);
            let there = order.to_gguf(&rows).unwrap();
            let back = order.to_checkpoint(&there).unwrap();
            assert_eq!(back.to_vec2::<f32>().unwrap(), rows.to_vec2::<f32>().unwrap(), "{order:?}");
        }
    }
}
