//! Weights of 8 bits: how they are rounded, and where they lie in a block of [`super::int8::Q8`].

use half::f16;

use super::blocks::GROUP;
use super::int8::{LARGEST, OUTPUTS, Q8_BYTES, QUAD, SCALES_BYTES};

/// The weights of one output for a group of inputs: `quant * scale` each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Q8Group {
    pub(crate) scale: f16,
    pub(crate) quants: [i8; GROUP],
}

impl Q8Group {
    /// Rounds up to [`GROUP`] weights, zeros being what is missing. The scale, of 16 bits, is rounded first.
    pub(crate) fn round(weights: &[f32]) -> Self {
        let whole = whole_group(weights);
        let scale = f16::from_f32(largest(&whole) / LARGEST).min(f16::MAX);
        // What a rounded scale does not reach is cut.
        Self { scale, quants: quants(&whole, scale.to_f32()) }
    }

    /// Writes them as those of the output in `lane`.
    pub(crate) fn put(&self, block: &mut [u8], lane: usize) {
        assert!(block.len() >= Q8_BYTES && lane < OUTPUTS, "a lane of a block");
        // SAFETY: the whole block is this call's.
        unsafe { self.put_beside_others(block.as_mut_ptr(), lane) }
    }

    /// The same where others write other lanes meanwhile.
    ///
    /// # Safety
    /// There is a block at `block`, it has this lane, and nobody else touches the lane.
    pub(crate) unsafe fn put_beside_others(&self, block: *mut u8, lane: usize) {
        // SAFETY: scale and quads of a lane lie inside the block, and are no other lane's.
        unsafe {
            block.add(lane * size_of::<f16>()).cast::<[u8; 2]>().write(self.scale.to_bits().to_ne_bytes());
            for (at, quad) in self.quants.as_chunks::<QUAD>().0.iter().enumerate() {
                block.add(place_in_q8(lane, at * QUAD)).cast::<[i8; QUAD]>().write(*quad);
            }
        }
    }

    /// Those of the output in `lane`.
    ///
    /// # Safety
    /// There is a block at `block`, it has this lane, and nobody writes the lane meanwhile.
    pub(crate) unsafe fn at(block: *const u8, lane: usize) -> Self {
        // SAFETY: scale and quants of a lane lie inside the block.
        unsafe {
            let scale = block.add(lane * size_of::<f16>()).cast::<[u8; 2]>().read();
            let quants = std::array::from_fn(|input| (*block.add(place_in_q8(lane, input))).cast_signed());
            Self { scale: f16::from_bits(u16::from_ne_bytes(scale)), quants }
        }
    }

    /// The weight of the output in `lane` for an input.
    pub(crate) fn get(block: &[u8], lane: usize, input: usize) -> f32 {
        f32::from(block[place_in_q8(lane, input)].cast_signed()) * f16_at(block, lane)
    }
}

/// Where in a block the weight of the output in `lane` for an input of the group lies.
pub(crate) fn place_in_q8(lane: usize, input: usize) -> usize {
    SCALES_BYTES + (input / QUAD * OUTPUTS + lane) * QUAD + input % QUAD
}

/// Writes the number of 16 bits of a lane, the first of which begins the block.
pub(crate) fn put_f16(block: &mut [u8], lane: usize, value: f16) {
    block[lane * size_of::<f16>()..][..size_of::<f16>()].copy_from_slice(&value.to_bits().to_ne_bytes());
}

/// Reads it.
pub(crate) fn f16_at(block: &[u8], lane: usize) -> f32 {
    let at = lane * size_of::<f16>();
    f16::from_bits(u16::from_ne_bytes([block[at], block[at + 1]])).to_f32()
}

/// A whole group, with zeros for what is missing.
pub(crate) fn whole_group(weights: &[f32]) -> [f32; GROUP] {
    let mut whole = [0.0; GROUP];
    whole[..weights.len()].copy_from_slice(weights);
    whole
}

/// The largest number, or the smallest, several at a time, so that the compiler makes vectors of them.
pub(crate) fn extreme(numbers: &[f32; GROUP], pick: impl Fn(f32, f32) -> f32) -> f32 {
    let (eights, _) = numbers.as_chunks::<8>();
    let of_eight = |a: [f32; 8], b: &[f32; 8]| std::array::from_fn(|i| pick(a[i], b[i]));
    eights.iter().fold([0.0; 8], of_eight).into_iter().fold(0.0, pick)
}

/// The largest of a group, in size.
pub(crate) fn largest(weights: &[f32; GROUP]) -> f32 {
    extreme(weights, |a, b| if a > b.abs() { a } else { b.abs() })
}

/// Each over the scale, rounded. Plain loops, which the compiler makes vectors of.
pub(crate) fn quants(weights: &[f32; GROUP], scale: f32) -> [i8; GROUP] {
    let mut quants = [0; GROUP];
    for (quant, weight) in quants.iter_mut().zip(weights) {
        *quant = integer(weight / scale, [-LARGEST, LARGEST]) as i8;
    }
    quants
}

/// Rounds to the nearest integer within limits, ties to the even one; what is no number becomes zero.
///
/// In floats of this size neighbours are 1 apart, and the low bits are the integer: plain code that the compiler makes
/// vectors of for any processor.
pub(crate) fn integer(ratio: f32, [least, most]: [f32; 2]) -> i32 {
    const INTEGERS: f32 = 1.5 * (1 << 23) as f32;
    let within = if ratio.is_nan() { 0.0 } else { ratio.clamp(least, most) };
    (within + INTEGERS).to_bits().cast_signed().wrapping_sub(INTEGERS.to_bits().cast_signed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn weights_are_off_by_half_a_step_at_most(
            weights in proptest::collection::vec(-100.0_f32..100.0, 1..=GROUP), lane in 0..OUTPUTS
        ) {
            let rounded = Q8Group::round(&weights);
            let mut block = vec![0xA5; Q8_BYTES];
            rounded.put(&mut block, lane);
            let step = rounded.scale.to_f32();
            for (input, weight) in weights.iter().enumerate() {
                // The largest may be cut by as much as the scale was rounded.
                let cut = LARGEST * step * 5e-4;
                prop_assert!((weight - Q8Group::get(&block, lane, input)).abs() <= 0.5001 * step + cut);
            }
        }
    }
}
