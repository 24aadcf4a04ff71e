//! Weights of files go into panels as they are, where panels can have them so.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use espalier_gguf::TensorType;
use proptest::prelude::*;

use super::matrix::{Linear, Panels};
use super::packing::Packer;
use crate::arithmetic::{Arithmetic, WeightFormat};
use crate::kernels::round_to_bf16;
use crate::raw_matrix::RawMatrix;

/// Sizes of a matrix: outputs and inputs, no whole panel and no whole number of pieces.
const SHAPE: [usize; 2] = [70, 768];

/// Where blocks have numbers of 16 bits.
fn halves(kind: TensorType) -> &'static [usize] {
    match kind {
        TensorType::Q4_1 | TensorType::Q4_K | TensorType::Q5_1 | TensorType::Q5_K => &[0, 2],
        TensorType::Q6_K => &[208],
        _ => &[0],
    }
}

/// A matrix of random blocks. Its numbers of 16 bits are below 2 in size, and none of its bytes is -128.
fn random(kind: TensorType, seed: u32) -> RawMatrix {
    let mix = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519) >> 8;
    let byte = |i: u32| if mix(i) as u8 == 0x80 { 0x81 } else { mix(i) as u8 };
    let mut bytes: Vec<u8> = (0..kind.bytes_of(SHAPE[0] * SHAPE[1]) as u32).map(byte).collect();
    for block in bytes.chunks_mut(kind.block_bytes()) {
        halves(kind).iter().for_each(|half| block[half + 1] &= 0b1011_1111);
    }
    RawMatrix::new(Arc::new(bytes), 0, kind, SHAPE)
}

fn pack(arithmetic: Arithmetic, weights: &[&RawMatrix]) -> Linear {
    Packer::new(arithmetic, WeightFormat::Stored).stack(weights).unwrap()
}

/// The weights of a packed layer, output after output.
fn packed(linear: &Linear) -> Vec<f32> {
    let mut weights = vec![0.0; linear.outputs() * linear.inputs()];
    weights.chunks_mut(linear.inputs()).enumerate().for_each(|(output, row)| linear.row(output, row));
    weights
}

/// The weights that a file's blocks stand for.
fn stored(matrix: &RawMatrix) -> Vec<f32> {
    matrix.to_tensor().unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The same matrix in floats.
fn floats(matrix: &RawMatrix) -> RawMatrix {
    RawMatrix::of_f32(&stored(matrix), SHAPE)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn blocks_of_one_scale_keep_every_weight_exactly(seed in any::<u32>()) {
        for (arithmetic, kind) in [
            (Arithmetic::Int8, TensorType::Q8_0),
            (Arithmetic::Int8Q4, TensorType::Q4_0),
            (Arithmetic::Int8Q4, TensorType::Q4_1),
        ] {
            let matrix = random(kind, seed);
            prop_assert!(packed(&pack(arithmetic, &[&matrix])) == stored(&matrix), "{}", kind);
        }
    }

    /// Scale and smallest weight of a group are products in the file, and rounded once here, to 11 bits each.
    #[test]
    fn blocks_of_scales_within_scales_are_off_by_one_rounding_of_those(seed in any::<u32>()) {
        let matrix = random(TensorType::Q4_K, seed);
        let (found, expected) = (packed(&pack(Arithmetic::Int8Q4, &[&matrix])), stored(&matrix));
        let mut groups = Vec::new();
        for output in 0..SHAPE[0] {
            (0..SHAPE[1]).step_by(256).for_each(|from| {
                let piece = matrix.piece(output, from);
                piece.kind.four_bits(piece.bytes, |group| groups.push(group));
            });
        }
        for ((found, expected), group) in found.chunks(32).zip(expected.chunks(32)).zip(groups) {
            for ((found, expected), quant) in found.iter().zip(expected).zip(group.quants) {
                let sizes = f32::from(quant) * group.scale.abs() + group.smallest.abs();
                let bound = sizes * 2_f32.powi(-11) + 16.0 * 2_f32.powi(-25);
                prop_assert!((found - expected).abs() <= bound, "{found} for {expected}");
            }
        }
    }
}

#[test]
fn all_other_blocks_are_packed_as_their_floats() {
    use TensorType::{Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0};
    for kind in [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K] {
        let matrix = random(kind, 1);
        let of_floats = |arithmetic| packed(&pack(arithmetic, &[&floats(&matrix)]));
        let of_blocks = |arithmetic| packed(&pack(arithmetic, &[&matrix]));
        assert!(of_blocks(Arithmetic::F32) == stored(&matrix), "{kind}");
        let rounded = |weight: &f32| f32::from_bits(u32::from(round_to_bf16(*weight)) << 16);
        assert!(of_blocks(Arithmetic::Bf16) == stored(&matrix).iter().map(rounded).collect::<Vec<_>>(), "{kind}");
        if kind != Q8_0 {
            assert!(of_blocks(Arithmetic::Int8) == of_floats(Arithmetic::Int8), "{kind}");
        }
        if !kind.has_four_bits() {
            assert!(of_blocks(Arithmetic::Int8Q4) == of_floats(Arithmetic::Int8Q4), "{kind}");
        }
    }
}

#[test]
fn a_layer_of_several_matrices_has_the_bits_of_its_finest() {
    let [coarse, fine] = [random(TensorType::Q4_K, 1), random(TensorType::Q6_K, 2).fine(true)];
    let bits = |weights: &[&RawMatrix]| match pack(Arithmetic::Int8Q4, weights).panels {
        Panels::Q4(_) => 4,
        Panels::Q8(_) => 8,
        _ => 0,
    };
    assert_eq!((bits(&[&coarse, &coarse]), bits(&[&fine]), bits(&[&coarse, &fine])), (4, 8, 8));
    assert_eq!(bits(&[&random(TensorType::Q6_K, 2)]), 4);
    let both = [&coarse, &fine];
    assert!(packed(&pack(Arithmetic::Int8Q4, &both)) == packed(&pack(Arithmetic::Int8, &both)));
}

#[test]
fn what_products_cannot_have_is_rounded_as_floats_are() {
    const INFINITE: u16 = 0x7C00;
    const LARGEST: u16 = 0x7BFF;
    for (arithmetic, kind, scale) in [
        (Arithmetic::Int8, TensorType::Q8_0, INFINITE),
        (Arithmetic::Int8Q4, TensorType::Q4_0, LARGEST),
        (Arithmetic::Int8Q4, TensorType::Q4_K, LARGEST),
    ] {
        let mut block = vec![0x37; kind.block_bytes()];
        block[..2].copy_from_slice(&scale.to_le_bytes());
        let shape = [1, kind.block_elements()];
        let matrix = RawMatrix::new(Arc::new(block), 0, kind, shape);
        let floats = RawMatrix::of_f32(&stored(&matrix), shape);
        let found = packed(&pack(arithmetic, &[&matrix]));
        assert_eq!(found, packed(&pack(arithmetic, &[&floats])), "{kind}");
        assert!(found.iter().all(|weight| weight.is_finite()), "{kind}");
    }
    let block = [&0x3C00_u16.to_le_bytes()[..], &[0x80; 32]].concat();
    let matrix = RawMatrix::new(Arc::new(block), 0, TensorType::Q8_0, [1, 32]);
    let found = packed(&pack(Arithmetic::Int8, &[&matrix]));
    assert!(found.iter().all(|weight| (weight + 128.0).abs() < 0.1), "{found:?}");
}
