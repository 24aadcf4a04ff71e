//! Blocks of bf16 weights, laid out as tiles: for each pair of inputs the two weights of each output.

use half::bf16;

use super::blocks::Block;
use crate::kernels::{LANES, TILE_BYTES, place_in_tile, round_to_bf16};

/// bf16 each.
pub(super) struct Tile;

/// Where the weight of a lane for an input of the group lies.
fn place(lane: usize, input: usize) -> usize {
    place_in_tile(lane, input) * size_of::<u16>()
}

impl Block for Tile {
    const OUTPUTS: usize = LANES;
    const BYTES: usize = TILE_BYTES;

    fn set(block: &mut [u8], lane: usize, weights: &[f32]) {
        for (input, weight) in weights.iter().enumerate() {
            block[place(lane, input)..][..size_of::<u16>()].copy_from_slice(&round_to_bf16(*weight).to_ne_bytes());
        }
    }

    fn get(block: &[u8], lane: usize, input: usize) -> f32 {
        let at = place(lane, input);
        bf16::from_bits(u16::from_ne_bytes([block[at], block[at + 1]])).to_f32()
    }
}
