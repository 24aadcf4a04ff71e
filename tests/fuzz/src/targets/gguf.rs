//! GGUF files, as the crate that reads them has them.

use espalier_gguf::{Array, Gguf, GgufWriter, NewTensor, TensorType, Value};

use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "gguf",
    about: "A GGUF file is refused, or all of its tensors can be read, and it is the same after it was written again.",
    run,
    seeds: || {
        vec![good(), GgufWriter::begin(Vec::new(), &good_metadata(), &[]).and_then(GgufWriter::finish)]
            .into_iter()
            .map(|file| file.expect("it can be written"))
            .collect()
    },
    tries: 6000,
    memory_max: 1 << 16,
};

const ALIGNMENT: &str = "general.alignment";

fn run(file: &[u8]) -> bool {
    match Gguf::parse(file) {
        Err(refusal) => refused(&refusal),
        Ok(parsed) => {
            let written = written(&parsed, file);
            let again = Gguf::parse(&written).expect("what was accepted is refused after it was written again");
            let same = written == self::written(&again, &written);
            assert!(same, "what was accepted is another after it was written again");
            true
        }
    }
}

/// The file as it is written by us, with every tensor as it is stored. Its floats are as many as its shape says.
fn written(parsed: &Gguf, file: &[u8]) -> Vec<u8> {
    let mut metadata = parsed.metadata().clone();
    // What is written is always so.
    metadata.extend([(ALIGNMENT.to_owned(), Value::U32(32))]);
    let tensors: Vec<NewTensor> = parsed
        .tensors()
        .map(|(name, info)| NewTensor { name: name.to_owned(), shape: info.shape().to_vec(), kind: info.kind() })
        .collect();
    let mut writer = GgufWriter::begin(Vec::new(), &metadata, &tensors).expect("what was read can be written");
    for (name, info) in parsed.tensors() {
        let tensor = parsed.tensor(file, name).expect("a tensor that is listed is there");
        assert_eq!(tensor.to_f32().len(), info.shape().iter().product::<usize>(), "{name}");
        writer.tensor(tensor.bytes()).expect("a tensor is as long as its shape says");
    }
    writer.finish().expect("all tensors were written")
}

/// A value of each shape.
fn good_metadata() -> espalier_gguf::Metadata {
    let texts = |texts: &[&str]| Array::String(texts.iter().map(|&text| text.to_owned()).collect());
    let entries = [
        (ALIGNMENT, Value::U32(32)),
        ("general.architecture", Value::String("llama".to_owned())),
        ("eps", Value::F32(1e-5)),
        ("flag", Value::Bool(true)),
        ("tokens", Value::Array(texts(&["a", "b", "", "ü"]))),
        ("scores", Value::Array(Array::F32(vec![1., 2.]))),
        ("nested", Value::Array(Array::Array(vec![Array::U64(vec![1, 2]), texts(&["c"])]))),
        ("small", Value::Array(Array::U8(vec![1, 2]))),
        ("long", Value::I64(-1)),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Metadata, and tensors of several types.
fn good() -> Result<Vec<u8>, espalier_gguf::WriteError> {
    let shapes: [(TensorType, &[usize]); 6] = [
        (TensorType::F32, &[2, 4]),
        (TensorType::BF16, &[8]),
        (TensorType::Q4_0, &[2, 32]),
        (TensorType::Q5_1, &[32]),
        (TensorType::Q6_K, &[256]),
        (TensorType::Q8_0, &[1, 32]),
    ];
    let tensors = shapes.map(|(kind, shape)| NewTensor { name: format!("of {kind}"), shape: shape.to_vec(), kind });
    let mut writer = GgufWriter::begin(Vec::new(), &good_metadata(), &tensors)?;
    for tensor in &tensors {
        writer.tensor(&vec![0x5a; tensor.kind.bytes_of(tensor.shape.iter().product())])?;
    }
    writer.finish()
}
