//! The rows of stored matrices in the order of a layer's outputs.

use super::layout::PANEL;
use crate::raw_matrix::{Piece, RawMatrix};

/// What a layer's outputs are.
pub(super) struct StoredRows<'a> {
    matrices: Vec<&'a RawMatrix>,
    /// Of each output; none where there is none.
    order: Vec<Option<OutputRow>>,
}

/// One output of a packed layer: row `row` of the matrix `source`.
#[derive(Clone, Copy)]
struct OutputRow {
    source: usize,
    row: usize,
}

impl<'a> StoredRows<'a> {
    /// Matrices of one input width, their outputs one after the other.
    pub(super) fn stacked(matrices: &[&'a RawMatrix]) -> Self {
        let rows = |source: usize, matrix: &RawMatrix| (0..matrix.outputs()).map(move |row| OutputRow { source, row });
        let order = matrices.iter().enumerate().flat_map(|(source, matrix)| rows(source, matrix)).map(Some).collect();
        Self { matrices: matrices.to_vec(), order }
    }

    /// Two matrices of one shape, half a panel of each in every panel.
    pub(super) fn paired(first: &'a RawMatrix, second: &'a RawMatrix) -> Self {
        let (rows, half) = (first.outputs(), PANEL / 2);
        let within = |row: usize| (row < rows).then_some(row);
        let order = (0..rows.div_ceil(half) * PANEL)
            .map(|o| within(o / PANEL * half + o % half).map(|row| OutputRow { source: o / half % 2, row }))
            .collect();
        Self { matrices: vec![first, second], order }
    }

    /// Width of a row of input.
    pub(super) fn inputs(&self) -> usize {
        self.matrices.first().map_or(0, |matrix| matrix.inputs())
    }

    /// Width of a row of output.
    pub(super) fn outputs(&self) -> usize {
        self.order.len()
    }

    /// Whether all matrices are such.
    pub(super) fn all(&self, such: impl Fn(&RawMatrix) -> bool) -> bool {
        self.matrices.iter().all(|matrix| such(matrix))
    }

    /// Some weights of an output, from input `from` on; none where there is no output.
    pub(super) fn piece(&self, output: usize, from: usize) -> Option<Piece<'a>> {
        let OutputRow { source, row } = (*self.order.get(output)?)?;
        Some(self.matrices.get(source)?.piece(row, from))
    }
}
