//! Blocks of weights that are multiplied with bytes.

use espalier_gguf::{EightBits, FourBits};
use half::f16;

use super::blocks::Block;
use crate::kernels::{
    GROUP, OUTPUTS, Q4_BYTES, Q8_BYTES, Q8Group, QUAD, SCALES_BYTES, extreme, f16_at, integer, put_f16, whole_group,
};
use crate::raw_matrix::Piece;

/// 8 bits each: `quant * scale`.
pub(super) struct Q8;

/// 4 bits each: `quant * scale + smallest`.
pub(super) struct Q4;

impl Block for Q8 {
    const OUTPUTS: usize = OUTPUTS;
    const BYTES: usize = Q8_BYTES;

    fn keep(blocks: &mut [u8], lane: usize, stored: Piece<'_>) -> bool {
        let mut blocks = blocks.chunks_exact_mut(Self::BYTES);
        stored.kind.eight_bits(stored.bytes, |group| {
            if let Some(block) = blocks.next() {
                kept(&group).put(block, lane);
            }
        })
    }

    fn set(block: &mut [u8], lane: usize, weights: &[f32]) {
        Q8Group::round(weights).put(block, lane);
    }

    fn get(block: &[u8], lane: usize, input: usize) -> f32 {
        Q8Group::get(block, lane, input)
    }
}

impl Block for Q4 {
    const OUTPUTS: usize = OUTPUTS;
    const BYTES: usize = Q4_BYTES;

    fn keep(blocks: &mut [u8], lane: usize, stored: Piece<'_>) -> bool {
        let mut blocks = blocks.chunks_exact_mut(Self::BYTES);
        stored.kind.four_bits(stored.bytes, |group| {
            if let Some(block) = blocks.next() {
                NibbleGroup::keep(&group).put(block, lane);
            }
        })
    }

    fn set(block: &mut [u8], lane: usize, weights: &[f32]) {
        NibbleGroup::round(weights).put(block, lane);
    }

    fn get(block: &[u8], lane: usize, input: usize) -> f32 {
        let (place, shift) = nibble_place(lane, input);
        let quant = block[place] >> shift & 15;
        f32::from(quant).mul_add(f16_at(block, lane), f16_at(&block[SCALES_BYTES..], lane))
    }
}

/// Where the 4-bit weight of a lane for an input of the group lies: the byte, and how far up in it.
fn nibble_place(lane: usize, input: usize) -> (usize, usize) {
    let (eight, rest) = (input / (2 * QUAD), input % (2 * QUAD));
    (2 * SCALES_BYTES + (eight * OUTPUTS + lane) * QUAD + rest % QUAD, rest / QUAD * 4)
}

/// The same weights, if the products can have them: with a scale that is finite, and none of -128.
fn kept(stored: &EightBits) -> Q8Group {
    let scale = f16::from_f32(stored.scale);
    if scale.is_finite() && !stored.quants.contains(&i8::MIN) {
        Q8Group { scale, quants: stored.quants }
    } else {
        Q8Group::round(&stored.to_f32())
    }
}

/// The weights of one output for a group of inputs: `quant * scale + smallest` each.
#[derive(Debug, Clone, Copy, PartialEq)]
struct NibbleGroup {
    scale: f16,
    smallest: f16,
    quants: [u8; GROUP],
}

/// The largest weight of 4 bits.
const LARGEST_NIBBLE: f32 = 15.0;

impl NibbleGroup {
    /// The same weights, if scale and smallest weight are numbers of 16 bits. They are rounded to those where they are
    /// products of such a number with another; where that is too large for 16 bits, so are weights.
    fn keep(stored: &FourBits) -> Self {
        let [scale, smallest] = [stored.scale, stored.smallest].map(f16::from_f32);
        if scale.is_finite() && smallest.is_finite() {
            Self { scale, smallest, quants: stored.quants }
        } else {
            Self::round(&stored.to_f32())
        }
    }

    /// Writes them as those of the output in `lane`.
    fn put(&self, block: &mut [u8], lane: usize) {
        put_f16(block, lane, self.scale);
        put_f16(&mut block[SCALES_BYTES..], lane, self.smallest);
        for (at, eight) in self.quants.as_chunks::<{ 2 * QUAD }>().0.iter().enumerate() {
            let (lower, upper) = eight.split_at(QUAD);
            let bytes = &mut block[nibble_place(lane, at * 2 * QUAD).0..][..QUAD];
            for ((byte, lower), upper) in bytes.iter_mut().zip(lower).zip(upper) {
                *byte = lower | upper << 4;
            }
        }
    }

    /// Rounds up to [`GROUP`] weights, zeros being what is missing. Scale and smallest weight, of 16 bits, are rounded
    /// first; the smallest is zero where all weights are positive, so that zeros are exact there.
    fn round(weights: &[f32]) -> Self {
        let whole = whole_group(weights);
        let limit = |value: f32| f16::from_f32(value.clamp(-HALF_MAX, HALF_MAX));
        let least = extreme(&whole, |a, b| if a < b { a } else { b });
        let largest = extreme(&whole, |a, b| if a > b { a } else { b });
        let (smallest, scale) = (limit(least), limit((largest - least) / LARGEST_NIBBLE));
        let (offset, divisor) = (smallest.to_f32(), scale.to_f32());
        let quants = whole.map(|weight| integer((weight - offset) / divisor, [0.0, LARGEST_NIBBLE]) as u8);
        Self { scale, smallest, quants }
    }
}

/// The largest number of 16 bits.
const HALF_MAX: f32 = 65504.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group() -> impl Strategy<Value = Vec<f32>> {
        proptest::collection::vec(-100.0_f32..100.0, 1..=GROUP)
    }

    proptest! {
        #[test]
        fn weights_of_4_bits_are_off_by_half_a_step_at_most(weights in group()) {
            let NibbleGroup { scale, smallest, quants } = NibbleGroup::round(&weights);
            let step = scale.to_f32();
            for (weight, quant) in weights.iter().zip(quants) {
                prop_assert!(quant <= 15);
                // The largest may be cut by as much as the smallest and the scale were rounded.
                let cut = (LARGEST_NIBBLE * step + smallest.to_f32().abs()) * 5e-4;
                prop_assert!((weight - f32::from(quant).mul_add(step, smallest.to_f32())).abs() <= 0.5001 * step + cut);
            }
        }

        #[test]
        fn what_was_set_is_got(weights in group(), lane in 0..OUTPUTS) {
            let mut block = vec![0xA5; Q4::BYTES];
            Q4::set(&mut block, lane, &weights);
            let NibbleGroup { scale, smallest, quants } = NibbleGroup::round(&weights);
            for (input, quant) in quants.into_iter().enumerate() {
                let expected = f32::from(quant).mul_add(scale.to_f32(), smallest.to_f32());
                prop_assert_eq!(Q4::get(&block, lane, input), expected);
            }
        }
    }
}
