//! Keys and values in f32: keys transposed (head_dim, BLOCK), so that one query meets many keys in one vector, values as
//! rows (BLOCK, padded head_dim).

use super::block::BLOCK;
use super::layout::{Head, Layout, Place};
use crate::kernels::LANES;

/// f32 each.
pub(crate) struct Floats;

impl Floats {
    /// Elements between two value rows: head_dim rounded up to whole vectors.
    pub(crate) fn value_stride(head_dim: usize) -> usize {
        head_dim.next_multiple_of(LANES)
    }
}

impl Layout for Floats {
    fn key_bytes(&self, head_dim: usize) -> usize {
        BLOCK * head_dim * size_of::<f32>()
    }

    fn value_bytes(&self, head_dim: usize) -> usize {
        BLOCK * Self::value_stride(head_dim) * size_of::<f32>()
    }

    unsafe fn store(&self, head: Head, row: usize, key: &[f32], value: &[f32]) {
        let (keys, values) = (head.keys.cast::<f32>(), head.values.cast::<f32>());
        // SAFETY: head_dim columns of the keys and one row of the values lie inside the block.
        unsafe {
            key.iter().enumerate().for_each(|(d, k)| *keys.add(d * BLOCK + row) = *k);
            let to = values.add(row * Self::value_stride(head.dim));
            std::ptr::copy_nonoverlapping(value.as_ptr(), to, value.len());
        }
    }

    unsafe fn copy(&self, Place { head: source, row: i }: Place, Place { head: target, row: j }: Place, rows: usize) {
        let (dim, stride) = (source.dim, Self::value_stride(source.dim));
        let floats = |bytes: *mut u8| bytes.cast::<f32>();
        // SAFETY: columns of keys and rows of values of places inside the blocks lie inside them.
        unsafe {
            for column in (0..dim).map(|d| d * BLOCK) {
                std::ptr::copy(floats(source.keys).add(column + i), floats(target.keys).add(column + j), rows);
            }
            let (from, to) = (floats(source.values).add(i * stride), floats(target.values).add(j * stride));
            std::ptr::copy(from, to, rows * stride);
        }
    }
}
