//! Keys and values in bytes, in blocks of 8-bit weights as [`crate::kernels`] multiplies them: for queries the positions are
//! outputs and the dimensions inputs, for weights the dimensions are outputs and the positions inputs.
//!
//! A key has a scale for each group of dimensions, which is what a block has room for. A value has one for all its
//! dimensions, kept beside the blocks, whose own scales are one: it goes to the weight that meets the value.

use half::f16;

use super::block::{BLOCK, GROUPS};
use super::layout::{Head, Layout, Place};
use crate::kernels::{
    GROUP, LARGEST, OUTPUTS, Q8_BYTES, Q8Group, QUAD, SCALES_BYTES, largest, place_in_q8, quants, whole_group,
};

/// A byte each, and scales.
pub(crate) struct Bytes;

/// The scales of a block of values.
const ONES: [u8; SCALES_BYTES] = {
    let (mut ones, [low, high]) = ([0; SCALES_BYTES], f16::ONE.to_bits().to_ne_bytes());
    let mut at = 0;
    while at < SCALES_BYTES {
        (ones[at], ones[at + 1]) = (low, high);
        at += size_of::<f16>();
    }
    ones
};

impl Bytes {
    /// Groups of a key's dimensions.
    pub(crate) fn key_groups(head_dim: usize) -> usize {
        head_dim.div_ceil(GROUP)
    }

    /// Strips of a block's values.
    pub(crate) fn value_strips(head_dim: usize) -> usize {
        head_dim.div_ceil(OUTPUTS)
    }

    /// Bytes of a strip of a block's values.
    pub(crate) fn value_strip() -> usize {
        GROUPS * Q8_BYTES
    }

    /// Where in a block's values the bytes begin that hold those of a row, and of those side by side with it, for the first
    /// dimensions.
    pub(crate) fn value_quad(row: usize) -> usize {
        row / GROUP * Q8_BYTES + place_in_q8(0, row % GROUP / QUAD * QUAD)
    }

    /// The scales of the values of rows side by side.
    ///
    /// # Safety
    /// The head's memory is valid, the rows are inside the block, and nobody writes them meanwhile.
    pub(crate) unsafe fn value_scales<'a>(head: Head, first: usize, rows: usize) -> &'a [f32] {
        assert!(first + rows <= BLOCK, "rows of one block");
        // SAFETY: so many scales lie behind the blocks.
        unsafe { std::slice::from_raw_parts(scales(head).add(first), rows) }
    }
}

/// The scales of a block's values.
fn scales(head: Head) -> *mut f32 {
    head.values.wrapping_add(Bytes::value_strips(head.dim) * Bytes::value_strip()).cast()
}

/// The block of keys that holds those of a row for a group of dimensions.
fn keys(head: Head, row: usize, group: usize) -> *mut u8 {
    head.keys.wrapping_add((row / OUTPUTS * Bytes::key_groups(head.dim) + group) * Q8_BYTES)
}

/// The block of values that holds those of some rows for a strip of dimensions.
fn values(head: Head, row: usize, strip: usize) -> *mut u8 {
    head.values.wrapping_add(strip * Bytes::value_strip() + row / GROUP * Q8_BYTES)
}

/// Where the value of a row for the first dimension of a strip lies.
fn first_value(head: Head, row: usize, strip: usize) -> *mut u8 {
    values(head, row, strip).wrapping_add(place_in_q8(0, row % GROUP))
}

/// Writes the values of a row for a strip of dimensions, and the scales of its block if it is the first of that: no block
/// is multiplied without it.
///
/// # Safety
/// The head's memory is valid, and nobody else touches the row.
unsafe fn put_values(head: Head, row: usize, strip: usize, quants: [i8; OUTPUTS]) {
    // SAFETY: scales begin the block, and values of neighbouring dimensions lie a quad apart.
    unsafe {
        if row.is_multiple_of(GROUP) {
            values(head, row, strip).cast::<[u8; SCALES_BYTES]>().write(ONES);
        }
        let first = first_value(head, row, strip);
        quants.into_iter().enumerate().for_each(|(lane, quant)| *first.add(lane * QUAD) = quant.cast_unsigned());
    }
}

impl Layout for Bytes {
    fn key_bytes(&self, head_dim: usize) -> usize {
        BLOCK / OUTPUTS * Self::key_groups(head_dim) * Q8_BYTES
    }

    fn value_bytes(&self, head_dim: usize) -> usize {
        Self::value_strips(head_dim) * Self::value_strip() + BLOCK * size_of::<f32>()
    }

    unsafe fn store(&self, head: Head, row: usize, key: &[f32], value: &[f32]) {
        for (group, key) in key.chunks(GROUP).enumerate() {
            // SAFETY: the row's lane of a block of keys; the rest is the caller's promise.
            unsafe { Q8Group::round(key).put_beside_others(keys(head, row, group), row % OUTPUTS) };
        }
        let of_groups = value.chunks(GROUP).map(|group| largest(&whole_group(group)));
        let scale = of_groups.fold(0.0, f32::max).min(f32::MAX) / LARGEST;
        // SAFETY: the scale of a row.
        unsafe { *scales(head).add(row) = scale };
        for (strip, value) in value.chunks(OUTPUTS).enumerate() {
            // SAFETY: the row's bytes of a block of values; the rest is the caller's promise.
            unsafe { put_values(head, row, strip, quants(&whole_group(value), scale)) };
        }
    }

    unsafe fn copy(&self, from: Place, to: Place, rows: usize) {
        let dim = from.head.dim;
        for (i, j) in (0..rows).map(|row| (from.row + row, to.row + row)) {
            // SAFETY: rows of blocks; the rest is the caller's promise.
            unsafe {
                for group in 0..Self::key_groups(dim) {
                    let key = Q8Group::at(keys(from.head, i, group), i % OUTPUTS);
                    key.put_beside_others(keys(to.head, j, group), j % OUTPUTS);
                }
                for strip in 0..Self::value_strips(dim) {
                    let first = first_value(from.head, i, strip);
                    let quants = std::array::from_fn(|lane| (*first.add(lane * QUAD)).cast_signed());
                    put_values(to.head, j, strip, quants);
                }
                *scales(to.head).add(j) = *scales(from.head).add(i);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 70;

    /// A head's memory, and what was stored in each row.
    struct Block {
        keys: Vec<u8>,
        values: Vec<f32>,
    }

    impl Block {
        fn new() -> Self {
            Self { keys: vec![0; Bytes.key_bytes(DIM)], values: vec![0.0; Bytes.value_bytes(DIM) / size_of::<f32>()] }
        }

        fn head(&mut self) -> Head {
            Head { keys: self.keys.as_mut_ptr(), values: self.values.as_mut_ptr().cast(), dim: DIM }
        }

        fn store(&mut self, row: usize, tag: f32) {
            let key: Vec<f32> = (0..DIM).map(|d| tag * (d + 1) as f32).collect();
            let value: Vec<f32> = key.iter().map(|k| -k).collect();
            // SAFETY: the memory is as long as it has to be, and this thread's alone.
            unsafe { Bytes.store(self.head(), row, &key, &value) };
        }

        /// The tag of a row, which all of it tells.
        fn tag(&mut self, row: usize) -> f32 {
            let head = self.head();
            // SAFETY: as above.
            let (key, value) = unsafe {
                let key = |d: usize| {
                    let Q8Group { scale, quants } = Q8Group::at(keys(head, row, d / GROUP), row % OUTPUTS);
                    scale.to_f32() * f32::from(quants[d % GROUP])
                };
                let scale = *scales(head).add(row);
                let byte = |d: usize| (*first_value(head, row, d / OUTPUTS).add(d % OUTPUTS * QUAD)).cast_signed();
                let value = |d: usize| -f32::from(byte(d)) * scale;
                ((0..DIM).map(key).collect::<Vec<_>>(), (0..DIM).map(value).collect::<Vec<_>>())
            };
            let tag = key[DIM - 1] / DIM as f32;
            let close = |of: &[f32]| of.iter().enumerate().all(|(d, v)| (v / tag - (d + 1) as f32).abs() < 0.3);
            assert!(close(&key) && close(&value), "row {row}: {key:?} {value:?}");
            tag
        }
    }

    #[test]
    fn every_row_has_a_place_of_its_own_and_can_be_moved() {
        let close = |found: f32, tag: usize| (found / (tag + 1) as f32 - 1.0).abs() < 1e-3;
        let (mut block, mut other) = (Block::new(), Block::new());
        (0..BLOCK).for_each(|row| block.store(row, (row + 1) as f32));
        assert!((0..BLOCK).all(|row| close(block.tag(row), row)));
        let (from, to) = (Place { head: block.head(), row: 20 }, Place { head: other.head(), row: 30 });
        // SAFETY: rows inside the blocks, on one thread.
        unsafe { Bytes.copy(from, to, 34) };
        assert!((30..BLOCK).all(|row| close(other.tag(row), row - 10)));
    }
}
