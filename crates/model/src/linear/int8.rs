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

    /// Rounds up to [`GROUP`] weights, zeros being what is missing: at first the smallest and the largest of them are met
    /// exactly, then scale and smallest weight are fitted to what the weights became, as long as all come nearer.
    fn round(weights: &[f32]) -> Self {
        let whole = whole_group(weights);
        let least = extreme(&whole, |a, b| if a < b { a } else { b });
        let largest = extreme(&whole, |a, b| if a > b { a } else { b });
        let mut best = Self::with(&whole, (largest - least) / LARGEST_NIBBLE, least);
        let mut error = best.error(&whole);
        for _ in 0..FITS {
            let fitted = best.fitted(&whole);
            let found = fitted.error(&whole);
            // Not so either where weights are all the same and nothing can be fitted.
            if found.is_nan() || found >= error {
                break;
            }
            (best, error) = (fitted, found);
        }
        best
    }

    /// The nearest to some weights with this scale and smallest weight, which are rounded to 16 bits first.
    fn with(weights: &[f32; GROUP], scale: f32, smallest: f32) -> Self {
        let limit = |value: f32| f16::from_f32(value.clamp(-HALF_MAX, HALF_MAX));
        let (scale, smallest) = (limit(scale), limit(smallest));
        let (offset, divisor) = (smallest.to_f32(), scale.to_f32());
        let quants = weights.map(|weight| integer((weight - offset) / divisor, [0.0, LARGEST_NIBBLE]) as u8);
        Self { scale, smallest, quants }
    }

    /// With the scale and the smallest weight that have the least squares of errors for these quants.
    fn fitted(&self, weights: &[f32; GROUP]) -> Self {
        let quants = self.quants.map(f32::from);
        let count = GROUP as f32;
        let (of_quants, of_weights) = (total(&quants), total(weights));
        let squares = total(&quants.map(|quant| quant * quant));
        let products = total(&std::array::from_fn(|i| quants[i] * weights[i]));
        let scale = (count * products - of_quants * of_weights) / (count * squares - of_quants * of_quants);
        Self::with(weights, scale, (of_weights - scale * of_quants) / count)
    }

    /// The sum of the squares of what the weights are off by.
    fn error(&self, weights: &[f32; GROUP]) -> f32 {
        let (scale, smallest) = (self.scale.to_f32(), self.smallest.to_f32());
        total(&std::array::from_fn(|i| (f32::from(self.quants[i]) * scale + smallest - weights[i]).powi(2)))
    }
}

/// How often scale and smallest weight are fitted: squares of errors fall by 8, 12 and 13 % (`medium`).
const FITS: usize = 3;

/// The sum, several at a time, so that the compiler makes vectors of them.
fn total(numbers: &[f32; GROUP]) -> f32 {
    let (eights, _) = numbers.as_chunks::<8>();
    let of_eight = |a: [f32; 8], b: &[f32; 8]| std::array::from_fn(|i| a[i] + b[i]);
    eights.iter().fold([0.0; 8], of_eight).into_iter().sum()
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
        fn weights_of_4_bits_come_nearer_than_with_the_smallest_and_the_largest_met(weights in group()) {
            let rounded = NibbleGroup::round(&weights);
            prop_assert!(rounded.quants.iter().all(|quant| *quant <= 15));
            let whole = whole_group(&weights);
            let (least, largest) = whole.iter().fold((0.0_f32, 0.0_f32), |(a, b), w| (a.min(*w), b.max(*w)));
            let step = (largest - least) / LARGEST_NIBBLE;
            // Half a step each at most, as far as scale and smallest weight have the bits for it.
            let limit = GROUP as f32 * (0.5001 * step + 5e-4 * (largest - 2.0 * least)).powi(2);
            prop_assert!(rounded.error(&whole) <= limit.min(NibbleGroup::with(&whole, step, least).error(&whole)));
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
