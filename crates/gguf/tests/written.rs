//! What is written is read back, and rounded as candle rounds it.
#![allow(clippy::unwrap_used)]

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use espalier_gguf::{Array, Gguf, GgufWriter, Metadata, NewTensor, TensorType, Value};
use proptest::collection::vec;
use proptest::prelude::*;

fn new(name: &str, shape: &[usize], kind: TensorType) -> NewTensor {
    NewTensor { name: name.to_owned(), shape: shape.to_vec(), kind }
}

fn metadata() -> Metadata {
    let strings =
        Array::Array(vec![Array::String(vec!["é".to_owned(), String::new()]), Array::Bool(vec![true, false])]);
    let numbers = [
        Value::U8(1),
        Value::I8(-1),
        Value::U16(2),
        Value::I16(-2),
        Value::U32(3),
        Value::I32(-3),
        Value::F32(0.5),
        Value::Bool(true),
        Value::String("text".to_owned()),
        Value::Array(strings),
        Value::U64(4),
        Value::I64(-4),
        Value::F64(0.25),
        Value::Array(Array::U8(vec![1, 2])),
        Value::Array(Array::I8(vec![-1])),
        Value::Array(Array::U16(vec![1])),
        Value::Array(Array::I16(vec![-1])),
        Value::Array(Array::U32(vec![7])),
        Value::Array(Array::I32(vec![-7])),
        Value::Array(Array::F32(vec![1.5])),
        Value::Array(Array::U64(vec![9])),
        Value::Array(Array::I64(vec![-9])),
        Value::Array(Array::F64(vec![2.5])),
    ];
    numbers.into_iter().enumerate().map(|(key, value)| (format!("key.{key}"), value)).collect()
}

#[test]
fn what_is_written_is_read_back() {
    let tensors =
        [new("a", &[3, 5], TensorType::F32), new("b", &[2, 32], TensorType::Q8_0), new("c", &[1], TensorType::F16)];
    let bytes = [
        TensorType::F32.from_f32(&[0.5; 15]),
        TensorType::Q8_0.from_f32(&[127.0; 64]),
        TensorType::F16.from_f32(&[2.0]),
    ];
    let mut writer = GgufWriter::begin(Vec::new(), &metadata(), &tensors).unwrap();
    bytes.iter().for_each(|bytes| writer.tensor(bytes.as_ref().unwrap()).unwrap());
    let file = writer.finish().unwrap();
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!((gguf.version(), gguf.metadata()), (3, &metadata()));
    for (tensor, elements) in tensors.iter().zip([vec![0.5; 15], vec![127.0; 64], vec![2.0]]) {
        let found = gguf.tensor(&file, &tensor.name).unwrap();
        assert_eq!((found.info().shape(), found.info().kind()), (&tensor.shape[..], tensor.kind));
        assert_eq!(found.to_f32(), elements);
    }
}

#[test]
fn faults_say_what_is_wrong() {
    let begin = |tensor| GgufWriter::begin(Vec::new(), &Metadata::default(), &[tensor]);
    let fault = begin(new("a", &[2, 33], TensorType::Q8_0)).unwrap_err().to_string();
    assert_eq!(fault, "tensor \"a\" has rows of 33 elements, and Q8_0 takes multiples of 32");
    let mut writer = begin(new("a", &[2], TensorType::F32)).unwrap();
    assert_eq!(writer.tensor(&[0; 7]).unwrap_err().to_string(), "tensor \"a\" has 7 bytes, and 8 were announced");
    let unfinished = begin(new("a", &[2], TensorType::F32)).unwrap().finish().unwrap_err().to_string();
    assert_eq!(unfinished, "1 tensors of those that were announced were not written");
    let fault = TensorType::Q6_K.from_f32(&[]).unwrap_err().to_string();
    assert_eq!(fault, "tensors of type Q6_K are not written, only F32, F16, BF16, Q4_0 and Q8_0 are");
}

/// The blocks that candle makes.
fn candle(elements: &[f32], kind: GgmlDType) -> Vec<u8> {
    let tensor = Tensor::from_slice(elements, elements.len(), &Device::Cpu).unwrap();
    QTensor::quantize(&tensor, kind).unwrap().data().unwrap().into_owned()
}

proptest! {
    #[test]
    fn blocks_are_those_of_the_oracle(elements in vec(-100.0f32..100.0, 64), scale in -12i32..3, zeros in any::<bool>()) {
        let mut elements: Vec<f32> = elements.iter().map(|element| element * 10f32.powi(scale)).collect();
        if zeros {
            elements[..32].fill(0.0);
        }
        let kinds = [
            (TensorType::F32, GgmlDType::F32),
            (TensorType::F16, GgmlDType::F16),
            (TensorType::BF16, GgmlDType::BF16),
            (TensorType::Q4_0, GgmlDType::Q4_0),
            (TensorType::Q8_0, GgmlDType::Q8_0),
        ];
        for (ours, theirs) in kinds {
            prop_assert_eq!(ours.from_f32(&elements).unwrap(), candle(&elements, theirs), "{}", ours);
        }
    }

    #[test]
    fn no_elements_do_harm(elements in vec(any::<f32>(), 0..100)) {
        for kind in [TensorType::F32, TensorType::F16, TensorType::BF16, TensorType::Q4_0, TensorType::Q8_0] {
            let bytes = kind.from_f32(&elements).unwrap();
            prop_assert_eq!(bytes.len(), elements.len() / kind.block_elements() * kind.block_bytes());
        }
    }
}
