//! A tensor of a file.

use std::ops::Range;

use crate::tensor_type::TensorType;

/// What is known of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: TensorType,
    pub(crate) range: Range<usize>,
}

impl TensorInfo {
    /// The shape, the fastest dimension last: (out, in) for a matrix.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How its elements are stored.
    pub fn kind(&self) -> TensorType {
        self.kind
    }

    /// The bytes of the file in which it lies.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

/// A tensor and its bytes, which are whole blocks.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    pub(crate) info: &'a TensorInfo,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// What is known of it.
    pub fn info(&self) -> &'a TensorInfo {
        self.info
    }

    /// Its elements as they are stored.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its elements, the fastest dimension last.
    pub fn to_f32(&self) -> Vec<f32> {
        let kind = self.info.kind;
        let mut elements = vec![0.0; (self.bytes.len() / kind.block_bytes()).saturating_mul(kind.block_elements())];
        kind.to_f32(self.bytes, &mut elements);
        elements
    }
}
