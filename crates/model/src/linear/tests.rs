#![allow(clippy::unwrap_used)]

use half::bf16;
use proptest::prelude::*;

use super::matrix::Linear;
use super::packing::Packer;
use super::{Compute, Inputs};
use crate::arithmetic::{Arithmetic, WeightFormat};
use crate::kernels::{GROUP, Kernels, LARGEST};
use crate::pool::Pool;
use crate::raw_matrix::RawMatrix;

/// Arithmetics that round their inputs.
const ROUNDED: [Arithmetic; 4] = [Arithmetic::Bf16, Arithmetic::Bf16Dot, Arithmetic::Int8, Arithmetic::Int8Q4];

/// A matrix.
#[derive(Clone, Copy)]
struct Sizes {
    inputs: usize,
    outputs: usize,
}

/// Whole groups and panels, and such that are not.
const SIZES: [Sizes; 3] =
    [Sizes { inputs: 32, outputs: 64 }, Sizes { inputs: 300, outputs: 70 }, Sizes { inputs: 1000, outputs: 130 }];

/// Values in -1..1, and here and there larger ones.
fn noise(len: usize, seed: u32) -> Vec<f32> {
    let mix = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
    let value = |i: u32| mix(i) as f32 / 2_f32.powi(31) - 1.0;
    (0..len as u32).map(|i| value(i) * if mix(i) % 37 == 0 { 20.0 } else { 1.0 }).collect()
}

fn packed(arithmetic: Arithmetic, Sizes { inputs, outputs }: Sizes, weights: &[f32]) -> Linear {
    Packer::new(arithmetic, WeightFormat::Stored).pack(&RawMatrix::of_f32(weights, [outputs, inputs])).unwrap()
}

fn forward(kernels: &Kernels, linear: &Linear, x: &[f32]) -> Vec<f32> {
    let (outputs, rows) = (linear.outputs(), x.len() / linear.inputs());
    let found = parking_lot::Mutex::new(vec![0.0; rows * outputs]);
    let (mut inputs, pool) = (Inputs::default(), &mut Pool::new(2));
    let given = |row: usize, values: &mut [f32]| values.copy_from_slice(&x[row * linear.inputs()..][..linear.inputs()]);
    inputs.make_room(kernels, linear, rows, pool.threads()).fill(pool, given);
    linear.forward(Compute { pool, kernels }, &inputs, &|computed| {
        for (row, first, values) in computed.rows() {
            found.lock()[row * outputs + first..][..values.len()].copy_from_slice(values);
        }
    });
    found.into_inner()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The weights of a layer as they were rounded, output after output.
fn rounded_weights(linear: &Linear) -> Vec<f32> {
    let mut weights = vec![0.0; linear.inputs() * linear.outputs()];
    weights.chunks_mut(linear.inputs()).enumerate().for_each(|(output, row)| linear.row(output, row));
    weights
}

/// The definitions: one row times one output, from weights that were rounded already.
mod definition {
    use super::*;

    /// As exactly as floats of 64 bits can, so not bit for bit.
    pub(super) fn int8(x: &[f32], weights: &[f32]) -> f64 {
        x.chunks(GROUP).zip(weights.chunks(GROUP)).map(|(x, weights)| group_of_int8(x, weights)).sum()
    }

    fn group_of_int8(x: &[f32], weights: &[f32]) -> f64 {
        let largest = x.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let factor = if largest > 0.0 { LARGEST / largest } else { 0.0 };
        let quants = x.iter().map(|value| f64::from((value * factor).round_ties_even()));
        quants.zip(weights).map(|(quant, weight)| quant * f64::from(*weight)).sum::<f64>()
            * f64::from(largest / LARGEST)
    }

    /// Bit for bit, as long as no number is too small.
    pub(super) fn bf16(x: &[f32], weights: &[f32]) -> f32 {
        let groups = x.chunks(GROUP).zip(weights.chunks(GROUP));
        groups.fold(0.0, |sum, (x, weights)| sum + (chain(x, weights, 0) + chain(x, weights, 1)))
    }

    /// Every other input of a group, from `first` on.
    fn chain(x: &[f32], weights: &[f32], first: usize) -> f32 {
        let products = x.iter().zip(weights).skip(first).step_by(2);
        products.fold(0.0, |sum, (x, weight)| add(sum, *x, *weight))
    }

    /// As above.
    pub(super) fn bf16_dot(x: &[f32], weights: &[f32]) -> f32 {
        let pairs = x.chunks(2).zip(weights.chunks(2));
        let products = pairs.flat_map(|(x, weights)| x.iter().zip(weights).rev());
        products.fold(0.0, |sum, (x, weight)| add(sum, *x, *weight))
    }

    /// The sum and the product of an input, rounded, with a weight.
    fn add(sum: f32, x: f32, weight: f32) -> f32 {
        bf16::from_f32(x).to_f32().mul_add(weight, sum)
    }
}

#[test]
fn any_number_of_rows_has_the_bits_of_one_row_by_the_portable_code() {
    for (arithmetic, sizes) in ROUNDED.into_iter().flat_map(|arithmetic| SIZES.map(|sizes| (arithmetic, sizes))) {
        let Sizes { inputs, outputs } = sizes;
        let x = noise(60 * inputs, 1);
        let linear = packed(arithmetic, sizes, &noise(inputs * outputs, 2));
        let tables = Kernels::available();
        let portable = tables.last().unwrap();
        let alone: Vec<f32> = x.chunks(inputs).flat_map(|row| forward(portable, &linear, row)).collect();
        for kernels in tables {
            for rows in [1, 2, 3, 4, 5, 7, 12, 13, 16, 17, 33, 60] {
                let found = forward(kernels, &linear, &x[..rows * inputs]);
                assert!(bits(&found) == bits(&alone[..rows * outputs]), "{arithmetic}, {}: {rows} rows", kernels.name);
            }
        }
    }
}

#[test]
fn products_are_what_their_definitions_say() {
    let sizes = Sizes { inputs: 300, outputs: 70 };
    let (x, weights) = (noise(sizes.inputs, 1), noise(sizes.inputs * sizes.outputs, 2));
    for arithmetic in ROUNDED {
        let linear = packed(arithmetic, sizes, &weights);
        let found = forward(Kernels::detect(), &linear, &x);
        for (found, weights) in found.into_iter().zip(rounded_weights(&linear).chunks(sizes.inputs)) {
            match arithmetic {
                Arithmetic::Bf16 => assert_eq!(found, definition::bf16(&x, weights)),
                Arithmetic::Bf16Dot => assert_eq!(found, definition::bf16_dot(&x, weights)),
                _ => {
                    let exact = definition::int8(&x, weights);
                    let sizes: f32 = x.iter().zip(weights).map(|(x, w)| (x * w).abs()).sum();
                    assert!((f64::from(found) - exact).abs() <= 1e-6 * f64::from(sizes), "{found} for {exact}");
                }
            }
        }
    }
}

#[test]
fn extreme_numbers_stay_what_they_are_as_far_as_can_be() {
    let sizes = Sizes { inputs: 64, outputs: 3 };
    let mut weights = vec![0.0; 3 * 64];
    weights[..64].fill(-1.0);
    weights[64..128].fill(1e-3);
    for (arithmetic, kernels) in ROUNDED.into_iter().flat_map(|a| Kernels::available().into_iter().map(move |k| (a, k)))
    {
        let linear = packed(arithmetic, sizes, &weights);
        let sums = |x: f32| forward(kernels, &linear, &[x; 64]);
        assert!(sums(0.0).iter().all(|sum| *sum == 0.0), "{arithmetic}, {}", kernels.name);
        assert!(sums(f32::MIN_POSITIVE / 2.0).iter().all(|sum| *sum == 0.0), "{arithmetic}, {}", kernels.name);
        let [ones, small, none] = sums(-3.0)[..] else { panic!("three outputs") };
        assert!((ones - 192.0).abs() < 0.1 && (small / -0.192 - 1.0).abs() < 0.02 && none == 0.0, "{ones} {small}");
        assert!(sums(1e36)[0] < -6e37);
        let huge = packed(arithmetic, Sizes { inputs: 32, outputs: 1 }, &[1e30; 32]);
        assert!(forward(kernels, &huge, &[1.0; 32])[0].is_finite(), "{}: cut to the largest scale", kernels.name);
    }
}

#[test]
fn the_largest_sums_of_a_group_fit() {
    let mut weights = [1.0; GROUP];
    weights[0] = 0.0;
    for (arithmetic, kernels) in ROUNDED.into_iter().flat_map(|a| Kernels::available().into_iter().map(move |k| (a, k)))
    {
        let linear = packed(arithmetic, Sizes { inputs: GROUP, outputs: 1 }, &weights);
        for x in [1.0, -1.0] {
            let sum = forward(kernels, &linear, &[x; GROUP])[0];
            assert!((sum - 31.0 * x).abs() < 0.02, "{arithmetic}, {}: {sum}", kernels.name);
        }
    }
}

#[test]
fn a_row_of_the_matrix_is_read_back_as_it_was_rounded() {
    let sizes = Sizes { inputs: 100, outputs: 70 };
    let weights = noise(sizes.inputs * sizes.outputs, 5);
    for (arithmetic, step) in [
        (Arithmetic::Bf16, 1.0 / 256.0),
        (Arithmetic::Bf16Dot, 1.0 / 256.0),
        (Arithmetic::Int8, 0.51 / LARGEST),
        (Arithmetic::Int8Q4, 2.0 / 15.0),
    ] {
        let rounded = rounded_weights(&packed(arithmetic, sizes, &weights));
        for (found, given) in rounded.chunks(sizes.inputs).zip(weights.chunks(sizes.inputs)) {
            for (found, given) in found.chunks(GROUP).zip(given.chunks(GROUP)) {
                let largest = given.iter().fold(0.0_f32, |largest, weight| largest.max(weight.abs()));
                let off = found.iter().zip(given).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off <= largest * step, "{arithmetic}: {off} of {largest}");
            }
        }
    }
}

/// Floats of all sizes: those whose products and sums are too small to be normal numbers, too.
fn tiny() -> impl Strategy<Value = f32> {
    let exact = |exponent: i32, mantissa: i32| (f64::from(mantissa) * 2.0_f64.powi(exponent - 7)) as f32;
    prop_oneof![(-66..-58_i32, -255..=255_i32), (-140..-120_i32, -255..=255_i32), (-5..5_i32, -255..=255_i32)]
        .prop_map(move |(exponent, mantissa)| exact(exponent, mantissa))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn numbers_that_are_too_small_become_zero_in_all_tables(
        x in proptest::collection::vec(tiny(), 64), weights in proptest::collection::vec(tiny(), 64),
        arithmetic in proptest::sample::select(&[Arithmetic::Bf16, Arithmetic::Bf16Dot][..]),
    ) {
        let linear = packed(arithmetic, Sizes { inputs: 64, outputs: 1 }, &weights);
        let tables = Kernels::available();
        let expected = bits(&forward(tables.last().unwrap(), &linear, &x));
        for kernels in tables {
            prop_assert_eq!(&bits(&forward(kernels, &linear, &x)), &expected, "{}", kernels.name);
        }
    }
}
