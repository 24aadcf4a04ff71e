//! Panels of 8-bit weights.
//!
//! A panel is cut into strips of [`LANES`] outputs, a strip into blocks of one group of inputs each, a block into the
//! scales of its outputs and their weights (see [`BLOCK_BYTES`]). So a panel is read from front to back, too.

use half::f16;

use super::layout::PANEL;
use crate::arena::{Arena, Slab};
use crate::disjoint::Disjoint;
use crate::error::ModelError;
use crate::kernels::{BLOCK_BYTES, GROUP, InputGroup, Int8Product, LANES, LARGEST, QUAD};
use crate::pool::Pool;

/// A packed matrix of 8-bit weights.
pub(super) struct Int8Panels {
    slab: Slab<u8>,
    inputs: usize,
    /// Groups of an output's inputs, the last one filled up with zeros.
    groups: usize,
}

/// Writes the weights of an output, and says whether there is one.
pub(super) type Row<'a> = dyn Fn(usize, &mut [f32]) -> bool + Sync + 'a;

/// The weights of one output for a group of inputs: `quant * scale` each.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WeightGroup {
    scale: f16,
    quants: [i8; GROUP],
}

impl WeightGroup {
    /// Rounds up to [`GROUP`] weights, zeros being what is missing. The scale, of 16 bits, is rounded first.
    fn round(weights: &[f32]) -> Self {
        let mut whole = [0.0; GROUP];
        whole[..weights.len()].copy_from_slice(weights);
        let scale = f16::from_f32(largest(&whole) / LARGEST).min(f16::MAX);
        let divisor = scale.to_f32();
        Self { scale, quants: whole.map(|weight| quant(weight / divisor)) }
    }
}

/// The size of the largest number, several at a time.
fn largest(numbers: &[f32; GROUP]) -> f32 {
    let mut sizes = [0.0_f32; 8];
    for eight in numbers.as_chunks::<8>().0 {
        for (size, number) in sizes.iter_mut().zip(eight) {
            *size = if number.abs() > *size { number.abs() } else { *size };
        }
    }
    sizes.into_iter().fold(0.0, f32::max)
}

/// Rounds to the nearest integer, ties to the even one. What a rounded scale does not reach is cut; where it is zero, it does
/// not matter what a quant is.
///
/// In floats of this size neighbours are 1 apart, and the low bits are the integer: plain code that the compiler makes
/// vectors of for any processor.
fn quant(ratio: f32) -> i8 {
    const INTEGERS: f32 = 1.5 * (1 << 23) as f32;
    let within = if ratio.is_nan() { 0.0 } else { ratio.clamp(-LARGEST, LARGEST) };
    ((within + INTEGERS).to_bits() as u8).cast_signed()
}

impl Int8Panels {
    /// Panels of zeros for so many outputs.
    pub(super) fn new(arena: &mut Arena, inputs: usize, outputs: usize) -> Result<Self, ModelError> {
        let groups = inputs.div_ceil(GROUP);
        let strips = outputs.div_ceil(PANEL) * (PANEL / LANES);
        Ok(Self { slab: arena.slab(strips * groups * BLOCK_BYTES)?, inputs, groups })
    }

    /// Bytes of all panels.
    pub(super) fn bytes(&self) -> usize {
        self.slab.as_slice().len()
    }

    /// With the weights of all outputs, rounded.
    pub(super) fn filled(mut self, pool: &mut Pool, row: &Row<'_>) -> Self {
        let len = self.groups * BLOCK_BYTES;
        let strips = self.slab.as_slice().len() / len;
        let blocks = Disjoint::new(self.slab.as_mut_slice());
        pool.run(strips, &|strip| {
            // SAFETY: each strip belongs to one task.
            let (blocks, _) = unsafe { blocks.slice(strip * len, len) }.as_chunks_mut::<BLOCK_BYTES>();
            let mut weights = vec![0.0; self.inputs];
            for lane in 0..LANES {
                if !row(strip * LANES + lane, &mut weights) {
                    continue;
                }
                for (block, weights) in blocks.iter_mut().zip(weights.chunks(GROUP)) {
                    Block(block.as_mut_slice()).set(lane, WeightGroup::round(weights));
                }
            }
        });
        self
    }

    /// The weights of an output, as they were rounded.
    pub(super) fn row(&self, output: usize, out: &mut [f32]) {
        for (group, out) in out.chunks_mut(GROUP).enumerate() {
            let place = self.block(output, group);
            let WeightGroup { scale, quants } =
                Block(&self.slab.as_slice()[place..][..BLOCK_BYTES]).get(output % LANES);
            out.iter_mut().zip(quants).for_each(|(out, quant)| *out = f32::from(quant) * scale.to_f32());
        }
    }

    /// Where the block of an output's strip and of a group lies.
    fn block(&self, output: usize, group: usize) -> usize {
        (output / LANES * self.groups + group) * BLOCK_BYTES
    }

    /// Rows of groups times a panel, into rows of [`PANEL`].
    pub(super) fn product(&self, panel: usize, x: &[InputGroup], acc: &mut [f32]) -> Int8Product {
        let (rows, strips) = (x.len() / self.groups, PANEL / LANES);
        let strip_stride = self.groups * BLOCK_BYTES;
        let w = &self.slab.as_slice()[panel * strips * strip_stride..][..strips * strip_stride];
        assert!(acc.len() >= rows * PANEL, "accumulators are whole");
        Int8Product {
            x: x.as_ptr(),
            x_stride: self.groups,
            rows,
            groups: self.groups,
            w: w.as_ptr(),
            strip_stride,
            strips,
            acc: acc.as_mut_ptr(),
            acc_stride: PANEL,
        }
    }
}

/// The bytes of [`LANES`] outputs for one group of inputs.
struct Block<T>(T);

/// Where the scale of a lane lies.
fn scale_place(lane: usize) -> std::ops::Range<usize> {
    lane * size_of::<f16>()..(lane + 1) * size_of::<f16>()
}

/// Where the weight of a lane for an input of the group lies.
fn quant_place(lane: usize, input: usize) -> usize {
    LANES * size_of::<f16>() + (input / QUAD * LANES + lane) * QUAD + input % QUAD
}

impl Block<&mut [u8]> {
    fn set(&mut self, lane: usize, WeightGroup { scale, quants }: WeightGroup) {
        self.0[scale_place(lane)].copy_from_slice(&scale.to_bits().to_ne_bytes());
        for (quad, quants) in quants.map(i8::cast_unsigned).as_chunks::<QUAD>().0.iter().enumerate() {
            self.0[quant_place(lane, quad * QUAD)..][..QUAD].copy_from_slice(quants);
        }
    }
}

impl Block<&[u8]> {
    fn get(&self, lane: usize) -> WeightGroup {
        let scale =
            self.0[scale_place(lane)].try_into().map_or(f16::ZERO, |bytes| f16::from_bits(u16::from_ne_bytes(bytes)));
        let quants = std::array::from_fn(|input| self.0[quant_place(lane, input)].cast_signed());
        WeightGroup { scale, quants }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use candle_core::{Device, Tensor};
    use proptest::prelude::*;

    use super::super::Compute;
    use super::super::matrix::Linear;
    use super::super::packing::Packer;
    use super::*;
    use crate::arithmetic::Arithmetic;
    use crate::kernels::Kernels;
    use crate::pool::Pool;

    /// A matrix and rows to multiply it with.
    struct Sizes {
        rows: usize,
        inputs: usize,
        outputs: usize,
    }

    /// Values in -1..1, and here and there larger ones.
    fn noise(len: usize, seed: u32) -> Vec<f32> {
        let mix = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
        let value = |i: u32| mix(i) as f32 / 2_f32.powi(31) - 1.0;
        (0..len as u32).map(|i| value(i) * if mix(i) % 37 == 0 { 20.0 } else { 1.0 }).collect()
    }

    fn packed(Sizes { inputs, outputs, .. }: &Sizes, weights: &[f32]) -> Linear {
        let weights = Tensor::from_slice(weights, (*outputs, *inputs), &Device::Cpu).unwrap();
        Packer::new(Arithmetic::Int8).pack(&weights).unwrap()
    }

    fn forward(kernels: &Kernels, linear: &Linear, x: &[f32]) -> Vec<f32> {
        let (outputs, rows) = (linear.outputs(), x.len() / linear.inputs());
        let found = parking_lot::Mutex::new(vec![0.0; rows * outputs]);
        let compute = Compute { pool: &mut Pool::new(2), kernels, rounded: &mut Vec::new() };
        linear.forward(compute, x, &|row, first, values| {
            found.lock()[row * outputs + first..][..values.len()].copy_from_slice(values);
        });
        found.into_inner()
    }

    /// The definition: both sides rounded in groups, integers within them, groups in their order.
    fn reference(Sizes { rows, inputs, outputs }: &Sizes, x: &[f32], weights: &[f32]) -> Vec<f32> {
        let round = |values: &[f32]| {
            let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            let factor = if largest > 0.0 { LARGEST / largest } else { 0.0 };
            let quants: Vec<i32> = values.iter().map(|value| (value * factor).round_ties_even() as i32).collect();
            (quants, largest / LARGEST)
        };
        let dot = |row: &[f32], output: &[f32]| {
            row.chunks(GROUP).zip(output.chunks(GROUP)).fold(0.0_f32, |sum, (x, w)| {
                let (x, x_scale) = round(x);
                let WeightGroup { scale, quants } = WeightGroup::round(w);
                let products: i32 = x.iter().zip(quants).map(|(x, w)| x * i32::from(w)).sum();
                (products as f32).mul_add(scale.to_f32() * x_scale, sum)
            })
        };
        let row = |row: usize| &x[row * inputs..][..*inputs];
        (0..*rows).flat_map(|r| (0..*outputs).map(move |o| dot(row(r), &weights[o * inputs..][..*inputs]))).collect()
    }

    #[test]
    fn all_tables_have_the_bits_of_the_definition_for_any_number_of_rows() {
        for (inputs, outputs) in [(32, 64), (300, 70), (1000, 130)] {
            let sizes = Sizes { rows: 30, inputs, outputs };
            let (x, weights) = (noise(30 * inputs, 1), noise(inputs * outputs, 2));
            let (linear, expected) = (packed(&sizes, &weights), reference(&sizes, &x, &weights));
            for kernels in Kernels::available() {
                for rows in [1, 2, 3, 4, 5, 7, 12, 13, 25, 30] {
                    let found = forward(kernels, &linear, &x[..rows * inputs]);
                    assert!(found == expected[..rows * outputs], "{}: {rows} rows of {inputs}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn extreme_numbers_stay_what_they_are_as_far_as_can_be() {
        let sizes = Sizes { rows: 1, inputs: 64, outputs: 3 };
        let mut weights = vec![0.0; 3 * 64];
        weights[..64].fill(-1.0);
        weights[64..128].fill(1e-3);
        let linear = packed(&sizes, &weights);
        for kernels in Kernels::available() {
            let sums = |x: f32| forward(kernels, &linear, &[x; 64]);
            assert_eq!(sums(0.0), [0.0; 3], "{}", kernels.name);
            assert_eq!(sums(f32::MIN_POSITIVE), [0.0; 3], "{}", kernels.name);
            let [ones, small, none] = sums(-3.0)[..] else { panic!("three outputs") };
            assert!((ones - 192.0).abs() < 0.1 && (small / -0.192 - 1.0).abs() < 0.02 && none == 0.0, "{ones} {small}");
            assert!(sums(1e36)[0] < -6e37);
            let huge = packed(&Sizes { rows: 1, inputs: 32, outputs: 1 }, &[1e30; 32]);
            assert!(forward(kernels, &huge, &[1.0; 32])[0].is_finite(), "{}: cut to the largest scale", kernels.name);
        }
    }

    #[test]
    fn quants_are_the_nearest_integers_and_ties_the_even_ones() {
        let rounded = |ratio: f32| ratio.round_ties_even().clamp(-LARGEST, LARGEST) as i8;
        let ratios = (-1040..=1040).map(|eighth| eighth as f32 / 8.0);
        for ratio in ratios.chain([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -0.0, 126.500_01, 0.499_999_97]) {
            assert_eq!(quant(ratio), rounded(ratio), "{ratio}");
        }
    }

    #[test]
    fn a_row_of_the_matrix_is_read_back_as_it_was_rounded() {
        let weights = noise(70 * 100, 5);
        let linear = packed(&Sizes { rows: 0, inputs: 100, outputs: 70 }, &weights);
        let mut row = vec![0.0; 100];
        for output in 0..70 {
            linear.row(output, &mut row);
            for (group, (found, given)) in row.chunks(GROUP).zip(weights[output * 100..].chunks(GROUP)).enumerate() {
                let largest = given.iter().take(found.len()).fold(0.0_f32, |largest, weight| largest.max(weight.abs()));
                let off = found.iter().zip(given).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off <= largest * (0.51 / LARGEST), "output {output}, group {group}: {off} of {largest}");
            }
        }
    }

    proptest! {
        #[test]
        fn weights_are_off_by_half_a_step_at_most(weights in proptest::collection::vec(-100.0_f32..100.0, 1..=GROUP)) {
            let WeightGroup { scale, quants } = WeightGroup::round(&weights);
            let step = scale.to_f32();
            for (weight, quant) in weights.iter().zip(quants) {
                // The largest may be cut by as much as the scale was rounded.
                let cut = LARGEST * step * 5e-4;
                prop_assert!((weight - f32::from(quant) * step).abs() <= 0.5001 * step + cut);
            }
        }
    }
}
