//! Keys and values in bf16, in blocks as [`crate::kernels`] multiplies them (see there): for queries the positions are
//! outputs and the dimensions inputs, for weights the dimensions are outputs and the positions inputs.

use super::block::{BLOCK, GROUPS};
use super::layout::{Head, Layout, Place};
use crate::kernels::{GROUP, LANES, TILE_BYTES, TILE_STRIPS, ValueAt, place_in_tile, round_to_bf16};

/// bf16 each.
pub(crate) struct Tiles;

/// Elements of a tile.
const TILE_ELEMENTS: usize = TILE_BYTES / size_of::<u16>();

impl Tiles {
    /// Strips of a block's values: the dimensions in vectors, as many more as products take at once.
    pub(crate) fn value_strips(head_dim: usize) -> usize {
        head_dim.div_ceil(LANES).next_multiple_of(TILE_STRIPS)
    }

    /// Where the first value of a row lies.
    pub(crate) fn value_of(head: Head, row: usize) -> ValueAt {
        let pair = value_at(row - row % 2, 0);
        ValueAt { pair: head.values.cast_const().cast::<u16>().wrapping_add(pair), second: row % 2 == 1 }
    }

    /// Elements of a strip of a block's values.
    pub(crate) fn value_strip() -> usize {
        GROUPS * TILE_ELEMENTS
    }

    /// Tiles of one strip of keys, each for [`GROUP`] dimensions.
    pub(crate) fn key_groups(head_dim: usize) -> usize {
        head_dim.div_ceil(GROUP)
    }
}

/// Which of a block's keys is that of a row for a dimension.
fn key_at(row: usize, d: usize, groups: usize) -> usize {
    (row / LANES * groups + d / GROUP) * TILE_ELEMENTS + place_in_tile(row % LANES, d % GROUP)
}

/// Which of a block's values is that of a row for a dimension.
fn value_at(row: usize, d: usize) -> usize {
    (d / LANES * GROUPS + row / GROUP) * TILE_ELEMENTS + place_in_tile(d % LANES, row % GROUP)
}

/// Numbers rounded, zeros being what is missing.
fn rounded<const N: usize>(values: &[f32]) -> [u16; N] {
    let mut rounded = [0; N];
    match <&[f32; N]>::try_from(values) {
        Ok(values) => rounded.iter_mut().zip(values).for_each(|(rounded, value)| *rounded = round_to_bf16(*value)),
        Err(_) => rounded.iter_mut().zip(values).for_each(|(rounded, value)| *rounded = round_to_bf16(*value)),
    }
    rounded
}

impl Layout for Tiles {
    fn key_bytes(&self, head_dim: usize) -> usize {
        BLOCK / LANES * Self::key_groups(head_dim) * TILE_BYTES
    }

    fn value_bytes(&self, head_dim: usize) -> usize {
        Self::value_strips(head_dim) * GROUPS * TILE_BYTES
    }

    unsafe fn store(&self, head: Head, row: usize, key: &[f32], value: &[f32]) {
        let (keys, values, groups) = (head.keys.cast::<u16>(), head.values.cast::<u16>(), Self::key_groups(head.dim));
        for (group, key) in key.chunks(GROUP).enumerate() {
            let rounded = rounded::<GROUP>(key);
            // SAFETY: the pairs of a row lie inside the tile, what is missing of the last group too.
            unsafe {
                let tile = keys.add(key_at(row, group * GROUP, groups));
                for (pair, dims) in rounded.as_chunks::<2>().0.iter().enumerate() {
                    tile.add(pair * 2 * LANES).cast::<[u16; 2]>().write_unaligned(*dims);
                }
            }
        }
        for (strip, value) in value.chunks(LANES).enumerate() {
            let rounded = rounded::<LANES>(value);
            // SAFETY: the dimensions of a row lie inside the tile, what is missing of the last strip too.
            unsafe {
                let tile = values.add(value_at(row, strip * LANES));
                rounded.iter().enumerate().for_each(|(lane, value)| *tile.add(2 * lane) = *value);
            }
        }
    }

    unsafe fn copy(&self, from: Place, to: Place, rows: usize) {
        let (dim, groups) = (from.head.dim, Self::key_groups(from.head.dim));
        let elements = |Head { keys, values, .. }: Head| (keys.cast::<u16>(), values.cast::<u16>());
        let ((from_keys, from_values), (to_keys, to_values)) = (elements(from.head), elements(to.head));
        for (i, j) in (0..rows).map(|row| (from.row + row, to.row + row)) {
            for d in 0..dim {
                // SAFETY: as above.
                unsafe {
                    *to_keys.add(key_at(j, d, groups)) = *from_keys.add(key_at(i, d, groups));
                    *to_values.add(value_at(j, d)) = *from_values.add(value_at(i, d));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 70;

    /// A head's memory, and what was stored in each row: numbers that bf16 holds.
    struct Block {
        keys: Vec<u16>,
        values: Vec<u16>,
    }

    impl Block {
        fn new() -> Self {
            let zeros = |bytes: usize| vec![0; bytes / size_of::<u16>()];
            Self { keys: zeros(Tiles.key_bytes(DIM)), values: zeros(Tiles.value_bytes(DIM)) }
        }

        fn head(&mut self) -> Head {
            Head { keys: self.keys.as_mut_ptr().cast(), values: self.values.as_mut_ptr().cast(), dim: DIM }
        }

        fn store(&mut self, row: usize, tag: f32) {
            let key: Vec<f32> = (0..DIM).map(|d| tag + d as f32).collect();
            let value: Vec<f32> = key.iter().map(|k| -k).collect();
            // SAFETY: the memory is as long as it has to be, and this thread's alone.
            unsafe { Tiles.store(self.head(), row, &key, &value) };
        }

        /// The tag of a row, which all of it tells.
        fn tag(&self, row: usize) -> f32 {
            let number = |bits: u16| half::bf16::from_bits(bits).to_f32();
            let key = |d| number(self.keys[key_at(row, d, Tiles::key_groups(DIM))]) - d as f32;
            let value = |d| -number(self.values[value_at(row, d)]) - d as f32;
            let tag = key(0);
            assert!((0..DIM).all(|d| key(d) == tag && value(d) == tag), "row {row}");
            tag
        }
    }

    #[test]
    fn every_row_has_a_place_of_its_own_and_can_be_moved() {
        let (mut block, mut other) = (Block::new(), Block::new());
        (0..BLOCK).for_each(|row| block.store(row, row as f32));
        assert!((0..BLOCK).all(|row| block.tag(row) == row as f32));
        let (from, to) = (Place { head: block.head(), row: 20 }, Place { head: other.head(), row: 30 });
        // SAFETY: rows inside the blocks, on one thread.
        unsafe { Tiles.copy(from, to, 34) };
        assert!((30..BLOCK).all(|row| other.tag(row) == row as f32 - 10.0));
    }
}
