//! A matrix of a checkpoint where it is stored, mostly in a mapped file: rows that can be read, on any thread.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use espalier_gguf::TensorType;

use crate::error::Result;

/// Elements of a row that are read at a time: whole blocks of every type, and whole groups of every packed layer.
pub(crate) const PIECE: usize = 256;

/// Something that bytes can be read from as long as it is held.
pub(crate) type Storage = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A matrix (out, in).
#[derive(Clone)]
pub struct RawMatrix {
    storage: Storage,
    /// Where its first row begins.
    start: usize,
    kind: TensorType,
    inputs: usize,
    /// The stored row of each output.
    rows: Vec<usize>,
    /// Whether it is kept in more than 4 bits in an arithmetic of 4 bits.
    fine: bool,
}

/// Neighbouring elements of a row.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) kind: TensorType,
    /// Whole blocks.
    pub(crate) bytes: &'a [u8],
    elements: usize,
}

impl RawMatrix {
    /// A matrix whose rows lie one after the other in a storage, the first from byte `start` on. That the storage has
    /// them all, in whole blocks, has been checked.
    pub(crate) fn new(storage: Storage, start: usize, kind: TensorType, [outputs, inputs]: [usize; 2]) -> Self {
        Self { storage, start, kind, inputs, rows: (0..outputs).collect(), fine: false }
    }

    /// A matrix of f32, row by row.
    #[cfg(test)]
    pub(crate) fn of_f32(elements: &[f32], shape: [usize; 2]) -> Self {
        let bytes: Vec<u8> = elements.iter().copied().flat_map(f32::to_le_bytes).collect();
        Self::new(Arc::new(bytes), 0, TensorType::F32, shape)
    }

    /// The outputs whose places are listed, in the order of the list.
    pub(crate) fn ordered(&self, places: &[usize]) -> Self {
        let rows = places.iter().filter_map(|&place| self.rows.get(place).copied()).collect();
        Self { rows, ..self.clone() }
    }

    /// The same, to be kept in more than 4 bits in an arithmetic of 4 bits, or not.
    pub(crate) fn fine(self, fine: bool) -> Self {
        Self { fine, ..self }
    }

    /// The same as a head, whose outputs decide the tokens: kept in more than 4 bits unless it is stored in 4.
    pub(crate) fn for_head(self) -> Self {
        let fine = !self.kind.has_four_bits();
        self.fine(fine)
    }

    /// A copy in memory of its own, which needs no file any more.
    pub(crate) fn in_memory(&self) -> Self {
        let mut bytes = Vec::with_capacity(self.outputs() * self.kind.bytes_of(self.inputs));
        (0..self.outputs()).for_each(|output| bytes.extend_from_slice(self.bytes(output, 0, self.inputs)));
        let mut copy = Self::new(Arc::new(bytes), 0, self.kind, [self.outputs(), self.inputs]);
        copy.fine = self.fine;
        copy
    }

    /// Width of a row of output.
    pub fn outputs(&self) -> usize {
        self.rows.len()
    }

    /// Width of a row of input.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// How its elements are stored.
    pub fn kind(&self) -> TensorType {
        self.kind
    }

    /// Whether it is kept in more than 4 bits in an arithmetic of 4 bits.
    pub(crate) fn is_fine(&self) -> bool {
        self.fine
    }

    /// At most [`PIECE`] weights of an output, from input `from` on, a multiple of that.
    pub(crate) fn piece(&self, output: usize, from: usize) -> Piece<'_> {
        let elements = PIECE.min(self.inputs.saturating_sub(from));
        Piece { kind: self.kind, bytes: self.bytes(output, from, elements), elements }
    }

    /// Reads the weights of an output.
    pub(crate) fn row(&self, output: usize, weights: &mut [f32]) {
        self.kind.to_f32(self.bytes(output, 0, self.inputs), weights);
    }

    /// All weights (out, in) as 32-bit floats.
    ///
    /// # Errors
    /// Those of candle, which makes the tensor.
    pub fn to_tensor(&self) -> Result<Tensor> {
        self.part(0..self.outputs(), 0..self.inputs)
    }

    /// The weights of some outputs for some inputs, as 32-bit floats: no more of them are in memory at once.
    pub(crate) fn part(&self, outputs: Range<usize>, inputs: Range<usize>) -> Result<Tensor> {
        let mut weights = Vec::with_capacity(outputs.len() * inputs.len());
        let mut row = vec![0.0; self.inputs];
        for output in outputs.clone() {
            self.row(output, &mut row);
            weights.extend_from_slice(&row[inputs.clone()]);
        }
        Ok(Tensor::from_vec(weights, (outputs.len(), inputs.len()), &Device::Cpu)?)
    }

    /// The blocks of so many weights of an output from input `from` on; none where there is no such output.
    fn bytes(&self, output: usize, from: usize, elements: usize) -> &[u8] {
        let Some(row) = self.rows.get(output) else { return &[] };
        let start = self.start + row * self.kind.bytes_of(self.inputs) + self.kind.bytes_of(from);
        let bytes = (*self.storage).as_ref().get(start..).and_then(|rest| rest.get(..self.kind.bytes_of(elements)));
        bytes.unwrap_or_default()
    }
}

impl fmt::Debug for RawMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawMatrix({:?} of {})", [self.outputs(), self.inputs], self.kind)
    }
}

impl Piece<'_> {
    /// Reads the weights into a buffer, and gives the part of it that they fill.
    pub(crate) fn read<'b>(&self, buffer: &'b mut [f32; PIECE]) -> &'b [f32] {
        let weights = &mut buffer[..self.elements];
        self.kind.to_f32(self.bytes, weights);
        weights
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rows_are_read_in_their_order_and_none_where_there_is_none() {
        let elements: Vec<f32> = (0..900).map(|element| element as f32).collect();
        let matrix = RawMatrix::of_f32(&elements, [3, 300]).ordered(&[2, 0, 2, 7]);
        for matrix in [&matrix, &matrix.in_memory()] {
            assert_eq!((matrix.outputs(), matrix.inputs()), (3, 300));
            let rows = matrix.to_tensor().unwrap().to_vec2::<f32>().unwrap();
            assert_eq!(rows, [&elements[600..], &elements[..300], &elements[600..]]);
            assert_eq!(matrix.piece(1, PIECE).read(&mut [0.0; PIECE]), &elements[256..300]);
            let mut untouched = [7.0; 300];
            matrix.row(3, &mut untouched);
            assert_eq!((untouched, matrix.piece(3, 0).bytes.len()), ([7.0; 300], 0));
        }
        let part = matrix.part(1..3, 298..300).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(part, [[298.0, 299.0], [898.0, 899.0]]);
        assert_eq!(format!("{matrix:?}"), "RawMatrix([3, 300] of F32)");
    }
}
