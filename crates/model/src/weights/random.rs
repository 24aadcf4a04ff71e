//! Tensors of random numbers, for measurements of models that are nowhere at hand.

use std::sync::Arc;
use std::thread::{self, available_parallelism};

use candle_core::{DType, Device, Tensor};
use espalier_gguf::TensorType;
use espalier_speculation::SplitMix64;
use half::bf16;

use crate::error::Result;
use crate::raw_matrix::RawMatrix;

/// How far the weight of a norm may be from 1, and a bias from 0.
const VECTOR_SPREAD: f32 = 0.125;

/// Fewest numbers that a thread is started for.
const PIECE_MIN: usize = 1 << 16;

/// Tensors of bf16 by name: whatever the order in which they are asked for, a name has the same numbers.
#[derive(Debug)]
pub(super) struct RandomTensors {
    seed: u64,
}

impl RandomTensors {
    /// The tensors of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Makes a tensor.
    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::from_raw_buffer(&self.bytes(name, shape), DType::BF16, shape, &Device::Cpu)?)
    }

    /// Makes a matrix (out, in).
    pub(super) fn matrix(&self, name: &str, shape: [usize; 2]) -> RawMatrix {
        RawMatrix::new(Arc::new(self.bytes(name, &shape)), 0, TensorType::BF16, shape)
    }

    /// The elements of a tensor.
    fn bytes(&self, name: &str, shape: &[usize]) -> Vec<u8> {
        let (mix, spread) = (self.mix(name), Spread::of(name, shape));
        let mut bytes = vec![0; shape.iter().product::<usize>() * size_of::<bf16>()];
        let (numbers, _) = bytes.as_chunks_mut();
        let threads = available_parallelism().map_or(1, usize::from);
        let piece = numbers.len().div_ceil(threads).max(PIECE_MIN);
        thread::scope(|scope| {
            for (at, numbers) in numbers.chunks_mut(piece).enumerate() {
                let number = move |i: usize| spread.number(mix.bits((at * piece + i) as u32));
                let fill = move |(i, bytes): (usize, &mut [u8; 2])| *bytes = number(i).to_le_bytes();
                scope.spawn(move || numbers.iter_mut().enumerate().for_each(fill));
            }
        });
        bytes
    }

    fn mix(&self, name: &str) -> Mix {
        let bits = name.bytes().fold(SplitMix64::mix(self.seed), |bits, byte| SplitMix64::mix(bits ^ u64::from(byte)));
        Mix { first: bits as u32, second: (bits >> 32) as u32 }
    }
}

/// Where the numbers of a tensor lie: evenly in `centre - reach .. centre + reach`.
#[derive(Clone, Copy)]
struct Spread {
    centre: f32,
    reach: f32,
}

impl Spread {
    /// Matrices keep the size of what they are multiplied with, about; norms leave it nearly as it is.
    fn of(name: &str, shape: &[usize]) -> Self {
        match shape {
            [_, inputs] => Self { centre: 0.0, reach: 1.0 / (*inputs as f32).sqrt() },
            _ if name.ends_with(".bias") => Self { centre: 0.0, reach: VECTOR_SPREAD },
            _ => Self { centre: 1.0, reach: VECTOR_SPREAD },
        }
    }

    /// The bits of the nearest bf16, of two equally near the even one.
    #[inline]
    fn number(&self, bits: u32) -> u16 {
        let signed = bits.cast_signed() as f32 / 2_f32.powi(31);
        let number = (self.centre + signed * self.reach).to_bits();
        ((number + 0x7fff + (number >> 16 & 1)) >> 16) as u16
    }
}

/// Random bits by place, in 32-bit operations that the compiler makes vectors of: what makes billions of numbers has to be
/// quick, and only has to look random.
#[derive(Clone, Copy)]
struct Mix {
    first: u32,
    second: u32,
}

impl Mix {
    #[inline]
    fn bits(&self, place: u32) -> u32 {
        let mut bits = place.wrapping_mul(0x9e37_79b1) ^ self.first;
        bits = (bits ^ (bits >> 15)).wrapping_mul(0x85eb_ca6b) ^ self.second;
        bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
        bits ^ (bits >> 16)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn numbers(tensors: &RandomTensors, name: &str, shape: &[usize]) -> Vec<f32> {
        let tensor = tensors.tensor(name, shape).unwrap();
        tensor.flatten_all().unwrap().to_dtype(DType::F32).unwrap().to_vec1().unwrap()
    }

    #[test]
    fn a_name_has_the_same_numbers_whatever_else_was_asked_for() {
        let (first, again) = (RandomTensors::new(7), RandomTensors::new(7));
        let [a, b] = ["a.weight", "b.weight"].map(|name| numbers(&first, name, &[3, 50]));
        let [b_again, a_again] = ["b.weight", "a.weight"].map(|name| numbers(&again, name, &[3, 50]));
        assert_eq!((&a, &b), (&a_again, &b_again));
        assert!(a != b && a != numbers(&RandomTensors::new(8), "a.weight", &[3, 50]));
    }

    #[test]
    fn numbers_fill_their_range_evenly() {
        let tensors = RandomTensors::new(1);
        let matrix = numbers(&tensors, "a.weight", &[1000, 64]);
        let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
        let squares: Vec<f32> = matrix.iter().map(|value| value * value * 64.0).collect();
        assert!(matrix.iter().all(|value| value.abs() <= 0.125) && mean(&matrix).abs() < 1e-3);
        assert!((mean(&squares) - 1.0 / 3.0).abs() < 0.01, "{}", mean(&squares));
        let [norm, bias] = ["n.weight", "n.bias"].map(|name| numbers(&tensors, name, &[10_000]));
        assert!((mean(&norm) - 1.0).abs() < 0.01 && norm.iter().all(|value| (value - 1.0).abs() <= VECTOR_SPREAD));
        assert!(mean(&bias).abs() < 0.01 && bias.iter().all(|value| value.abs() <= VECTOR_SPREAD));
    }
}
