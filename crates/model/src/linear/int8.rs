//! Blocks of weights that are multiplied with bytes.

use half::f16;

use super::blocks::Block;
use crate::kernels::{GROUP, LANES, LARGEST, QUAD, SCALES_BYTES};

/// 8 bits each: `quant * scale`.
pub(super) struct Q8;

/// 4 bits each: `quant * scale + smallest`.
pub(super) struct Q4;

impl Block for Q8 {
    const BYTES: usize = SCALES_BYTES + LANES * GROUP;

    fn set(block: &mut [u8], lane: usize, weights: &[f32]) {
        let WeightGroup { scale, quants } = WeightGroup::round(weights);
        set_f16(block, lane, scale);
        for (input, quant) in quants.into_iter().enumerate() {
            block[quant_place(lane, input)] = quant.cast_unsigned();
        }
    }

    fn get(block: &[u8], lane: usize, input: usize) -> f32 {
        f32::from(block[quant_place(lane, input)].cast_signed()) * get_f16(block, lane)
    }
}

impl Block for Q4 {
    const BYTES: usize = 2 * SCALES_BYTES + LANES * GROUP / 2;

    fn set(block: &mut [u8], lane: usize, weights: &[f32]) {
        let NibbleGroup { scale, smallest, quants } = NibbleGroup::round(weights);
        set_f16(block, lane, scale);
        set_f16(&mut block[SCALES_BYTES..], lane, smallest);
        for (input, quant) in quants.into_iter().enumerate() {
            let (place, shift) = nibble_place(lane, input);
            block[place] = block[place] & !(15 << shift) | quant << shift;
        }
    }

    fn get(block: &[u8], lane: usize, input: usize) -> f32 {
        let (place, shift) = nibble_place(lane, input);
        let quant = block[place] >> shift & 15;
        f32::from(quant).mul_add(get_f16(block, lane), get_f16(&block[SCALES_BYTES..], lane))
    }
}

/// Where the 8-bit weight of a lane for an input of the group lies.
fn quant_place(lane: usize, input: usize) -> usize {
    SCALES_BYTES + (input / QUAD * LANES + lane) * QUAD + input % QUAD
}

/// Where the 4-bit weight of a lane for an input of the group lies: the byte, and how far up in it.
fn nibble_place(lane: usize, input: usize) -> (usize, usize) {
    let (eight, rest) = (input / (2 * QUAD), input % (2 * QUAD));
    (2 * SCALES_BYTES + (eight * LANES + lane) * QUAD + rest % QUAD, rest / QUAD * 4)
}

fn set_f16(block: &mut [u8], lane: usize, value: f16) {
    block[lane * size_of::<f16>()..][..size_of::<f16>()].copy_from_slice(&value.to_bits().to_ne_bytes());
}

fn get_f16(block: &[u8], lane: usize) -> f32 {
    let at = lane * size_of::<f16>();
    f16::from_bits(u16::from_ne_bytes([block[at], block[at + 1]])).to_f32()
}

/// The weights of one output for a group of inputs: `quant * scale` each.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WeightGroup {
    scale: f16,
    quants: [i8; GROUP],
}

impl WeightGroup {
    /// Rounds up to [`GROUP`] weights, zeros being what is missing. The scale, of 16 bits, is rounded first.
    fn round(weights: &[f32]) -> Self {
        let largest = weights.iter().fold(0.0_f32, |largest, weight| largest.max(weight.abs()));
        let scale = f16::from_f32(largest / LARGEST).min(f16::MAX);
        let divisor = scale.to_f32();
        let mut quants = [0; GROUP];
        for (quant, weight) in quants.iter_mut().zip(weights) {
            // What a rounded scale does not reach is cut. Where it is zero, it does not matter what a quant is.
            *quant = (weight / divisor).round_ties_even().clamp(-LARGEST, LARGEST) as i8;
        }
        Self { scale, quants }
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
    /// Rounds up to [`GROUP`] weights, zeros being what is missing. Scale and smallest weight, of 16 bits, are rounded
    /// first; the smallest is zero where all weights are positive, so that zeros are exact there.
    fn round(weights: &[f32]) -> Self {
        let limit = |value: f32| f16::from_f32(value.clamp(-HALF_MAX, HALF_MAX));
        let least = weights.iter().fold(0.0_f32, |least, weight| least.min(*weight));
        let largest = weights.iter().fold(0.0_f32, |largest, weight| largest.max(*weight));
        let (smallest, scale) = (limit(least), limit((largest - least) / LARGEST_NIBBLE));
        let (offset, divisor) = (smallest.to_f32(), scale.to_f32());
        let mut quants = [0; GROUP];
        for (i, quant) in quants.iter_mut().enumerate() {
            let weight = weights.get(i).copied().unwrap_or(0.0);
            // Where the scale is zero, it does not matter what a quant is.
            *quant = ((weight - offset) / divisor).round_ties_even().clamp(0.0, LARGEST_NIBBLE) as u8;
        }
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
        fn weights_of_8_bits_are_off_by_half_a_step_at_most(weights in group()) {
            let WeightGroup { scale, quants } = WeightGroup::round(&weights);
            let step = scale.to_f32();
            for (weight, quant) in weights.iter().zip(quants) {
                // The largest may be cut by as much as the scale was rounded.
                let cut = LARGEST * step * 5e-4;
                prop_assert!((weight - f32::from(quant) * step).abs() <= 0.5001 * step + cut);
            }
        }

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
        fn what_was_set_is_got(weights in group(), lane in 0..LANES) {
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
