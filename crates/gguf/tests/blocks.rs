//! Floats made of random blocks are the same bits as candle's.
#![allow(clippy::unwrap_used)]

mod writer;

use candle_core::Device;
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use espalier_gguf::{Gguf, TensorType};
use proptest::collection::vec;
use proptest::prelude::*;
use writer::{file, listing};

/// A type of tensor: its number, what candle calls it, and where its blocks have f16.
struct Kind {
    number: u32,
    ours: TensorType,
    candle: GgmlDType,
    halves: &'static [usize],
}

const KINDS: [Kind; 11] = [
    Kind { number: 0, ours: TensorType::F32, candle: GgmlDType::F32, halves: &[] },
    Kind { number: 1, ours: TensorType::F16, candle: GgmlDType::F16, halves: &[0] },
    Kind { number: 30, ours: TensorType::BF16, candle: GgmlDType::BF16, halves: &[] },
    Kind { number: 2, ours: TensorType::Q4_0, candle: GgmlDType::Q4_0, halves: &[0] },
    Kind { number: 3, ours: TensorType::Q4_1, candle: GgmlDType::Q4_1, halves: &[0, 2] },
    Kind { number: 6, ours: TensorType::Q5_0, candle: GgmlDType::Q5_0, halves: &[0] },
    Kind { number: 7, ours: TensorType::Q5_1, candle: GgmlDType::Q5_1, halves: &[0, 2] },
    Kind { number: 8, ours: TensorType::Q8_0, candle: GgmlDType::Q8_0, halves: &[0] },
    Kind { number: 12, ours: TensorType::Q4_K, candle: GgmlDType::Q4K, halves: &[0, 2] },
    Kind { number: 13, ours: TensorType::Q5_K, candle: GgmlDType::Q5K, halves: &[0, 2] },
    Kind { number: 14, ours: TensorType::Q6_K, candle: GgmlDType::Q6K, halves: &[208] },
];

const ROWS: usize = 3;

fn ours(kind: &Kind, blocks: &[u8]) -> Vec<f32> {
    let row = blocks.len() / ROWS / kind.ours.block_bytes() * kind.ours.block_elements();
    let bytes = file(&[], &[listing("t", &[row as u64, ROWS as u64], kind.number, 0)], blocks);
    let gguf = Gguf::parse(&bytes).unwrap();
    let tensor = gguf.tensor(&bytes, "t").unwrap();
    assert_eq!((tensor.info().kind(), tensor.info().shape()), (kind.ours, &[ROWS, row][..]));
    tensor.to_f32()
}

fn candle(kind: &Kind, blocks: &[u8]) -> Vec<f32> {
    let elements = blocks.len() / kind.ours.block_bytes() * kind.ours.block_elements();
    let storage = QStorage::from_data(blocks.into(), &Device::Cpu, kind.candle).unwrap();
    QTensor::new(storage, elements).unwrap().dequantize(&Device::Cpu).unwrap().to_vec1().unwrap()
}

/// Which number it is, all that are none being alike: of two of those, either may come out of a sum.
fn bits(value: f32) -> Option<u32> {
    (!value.is_nan()).then(|| value.to_bits())
}

proptest! {
    #[test]
    fn random_blocks_are_the_bits_of_the_oracle(seed in vec(any::<u8>(), 2 * ROWS * 210), finite in any::<bool>()) {
        for kind in &KINDS {
            let bytes = kind.ours.block_bytes();
            let mut blocks = seed[..2 * ROWS * bytes].to_vec();
            for block in blocks.chunks_mut(bytes).filter(|_| finite) {
                // Without the highest bit of its exponent, a f16 is finite.
                kind.halves.iter().for_each(|half| block[half + 1] &= 0b1011_1111);
            }
            let (ours, candle) = (ours(kind, &blocks), candle(kind, &blocks));
            prop_assert_eq!(ours.len(), candle.len());
            for (at, (ours, candle)) in ours.into_iter().zip(candle).enumerate() {
                prop_assert_eq!(bits(ours), bits(candle), "{} element {}: {} and {}", kind.ours, at, ours, candle);
            }
        }
    }
}

#[test]
fn a_block_of_each_type_by_hand() {
    let one = 0x3C00u16.to_le_bytes(); // 1 as f16
    let of = |number: u32, block: Vec<u8>| {
        let kind = KINDS.iter().find(|kind| kind.number == number).unwrap();
        ours(kind, &block.repeat(ROWS))[..kind.ours.block_elements()].to_vec()
    };
    let q4_0 = of(2, [&one[..], &[0xF0], &[0x88; 15]].concat());
    assert_eq!((q4_0[0], q4_0[1], q4_0[16]), (-8.0, 0.0, 7.0));
    let q8_0 = of(8, [&one[..], &[0x80, 0x7F], &[0; 30]].concat());
    assert_eq!(q8_0[..3], [-128.0, 127.0, 0.0]);
    // The first group has scale 2 and minimum 3; the fifth scale 0b100101 and minimum 0b110010.
    let scales = [2 | 0b1000_0000, 0, 0, 0, 3 | 0b1100_0000, 0, 0, 0, 0b0010_0101, 0, 0, 0];
    let q4_k = of(12, [&one[..], &one, &scales, &[0x5F; 128]].concat());
    assert_eq!((q4_k[0], q4_k[32], q4_k[128]), (2.0 * 15.0 - 3.0, 0.0, 37.0 * 15.0 - 50.0));
    // Scales are -1 for the first 16 elements and 2 for the next; element 0 is 0b11_0001, element 32 0b10_0000.
    let (low, high) = ([&[1][..], &[0; 127]].concat(), [&[0b1011][..], &[0; 63]].concat());
    let q6_k = of(14, [&low[..], &high, &[0xFF, 2, 1], &[0; 13], &one].concat());
    assert_eq!((q6_k[0], q6_k[1], q6_k[16], q6_k[32]), (-17.0, 32.0, -64.0, 0.0));
}
