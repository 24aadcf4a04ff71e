//! From floats to blocks, with the rounding of ggml.

use half::{bf16, f16};

use crate::error::{GgufError, Result};
use crate::tensor_type::TensorType;

impl TensorType {
    /// The types that are written, for messages.
    pub const WRITTEN: &str = "F32, F16, BF16, Q4_0 and Q8_0";

    /// Whether tensors of this type are written.
    pub fn is_written(self) -> bool {
        match self {
            Self::F32 | Self::F16 | Self::BF16 | Self::Q4_0 | Self::Q8_0 => true,
            Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q4_K | Self::Q5_K | Self::Q6_K => false,
        }
    }

    /// The blocks of some elements, as ggml rounds them. What is left over after the last whole block is left out.
    ///
    /// # Errors
    /// A type that is not written.
    pub fn from_f32(self, elements: &[f32]) -> Result<Vec<u8>> {
        match self {
            Self::F32 => Ok(floats(elements, f32::to_le_bytes)),
            Self::F16 => Ok(floats(elements, |element| f16::from_f32(element).to_le_bytes())),
            Self::BF16 => Ok(floats(elements, |element| bf16::from_f32(element).to_le_bytes())),
            Self::Q4_0 => Ok(blocks(elements, q4_0)),
            Self::Q8_0 => Ok(blocks(elements, q8_0)),
            Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q4_K | Self::Q5_K | Self::Q6_K => {
                Err(GgufError::NotWritten { kind: self })
            }
        }
    }
}

fn floats<const N: usize>(elements: &[f32], bytes: impl Fn(f32) -> [u8; N]) -> Vec<u8> {
    elements.iter().copied().flat_map(bytes).collect()
}

fn blocks<const N: usize, const BYTES: usize>(elements: &[f32], block: impl Fn(&[f32; N]) -> [u8; BYTES]) -> Vec<u8> {
    elements.as_chunks().0.iter().flat_map(block).collect()
}

/// What elements are multiplied with to be counted in steps of `d`.
fn steps_per_unit(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// 32 elements as `d (q - 8)`. The largest by magnitude is met exactly, as far as `d` can be written.
fn q4_0(elements: &[f32; 32]) -> [u8; 18] {
    let larger = |largest: f32, &element: &f32| if largest.abs() < element.abs() { element } else { largest };
    let d = elements.iter().fold(0.0, larger) / -8.0;
    let scale = steps_per_unit(d);
    // Cut off after half a step was added: rounded.
    let quant = |element: f32| ((element * scale + 8.5) as u8).min(15);
    let mut block = [0; 18];
    let (head, quants) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(d).to_le_bytes());
    let (first, second) = elements.split_at(16);
    for ((quants, &low), &high) in quants.iter_mut().zip(first).zip(second) {
        *quants = quant(low) | (quant(high) << 4);
    }
    block
}

/// 32 elements as `d q`.
fn q8_0(elements: &[f32; 32]) -> [u8; 34] {
    let d = elements.iter().fold(0.0, |most: f32, element| most.max(element.abs())) / 127.0;
    let scale = steps_per_unit(d);
    let mut block = [0; 34];
    let (head, quants) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(d).to_le_bytes());
    for (quant, &element) in quants.iter_mut().zip(elements) {
        *quant = ((element * scale).round() as i8).cast_unsigned();
    }
    block
}
