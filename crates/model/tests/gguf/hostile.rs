//! No bytes of a file do harm.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

/// A small model whose header is a good part of it.
static MODEL: LazyLock<Vec<u8>> =
    LazyLock::new(|| Editable::of(&converted(&golden("llama3-rope-scaling"), Some(TensorType::Q8_0))).bytes());

/// Bytes before the data, nearly.
const HEADER: usize = 4096;

/// Opens and loads, whatever comes of it.
fn load(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    if let Ok(checkpoint) = Checkpoint::open(&path) {
        for arithmetic in [Arithmetic::F32, Arithmetic::Int8] {
            let _ = Decoder::load(&checkpoint, &LoadOptions { arithmetic, ..LoadOptions::default() });
        }
    }
}

#[test]
fn what_is_mutated_is_a_model() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.gguf"), &*MODEL).unwrap();
    assert!(logits(folder.path()).iter().all(|logit| logit.is_finite()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_changed_byte_does_harm(at in 0..HEADER, byte in any::<u8>()) {
        let mut bytes = MODEL.clone();
        bytes[at] = byte;
        load(&bytes);
    }

    #[test]
    fn no_changed_number_does_harm(at in 0..HEADER, word in prop_oneof![any::<u32>(), 0u32..5, Just(u32::MAX)]) {
        let mut bytes = MODEL.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        load(&bytes);
    }

    #[test]
    fn no_changed_block_does_harm(at in 0..MODEL.len() - HEADER, word in prop_oneof![any::<u32>(), Just(u32::MAX)]) {
        let mut bytes = MODEL.clone();
        bytes[HEADER + at - 4..][..4].copy_from_slice(&word.to_le_bytes());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.gguf"), &bytes).unwrap();
        if Checkpoint::open(folder.path()).is_ok() {
            let _ = Arithmetic::ALL.map(|arithmetic| logits_in(arithmetic, folder.path()));
        }
    }

    #[test]
    fn no_truncation_does_harm(length in 0usize..2 * HEADER) {
        load(&MODEL[..length.min(MODEL.len())]);
    }

    #[test]
    fn no_changed_entry_does_harm(entry in 0usize..40, number in any::<u32>(), float in any::<f32>()) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.gguf"), &*MODEL).unwrap();
        let file = Editable::of(&folder);
        let key = file.metadata.iter().nth(entry).map(|(key, value)| (key.to_owned(), value.clone()));
        let Some((key, value)) = key else { return Ok(()) };
        let value = match value {
            Value::U32(_) => Value::U32(number),
            Value::F32(_) => Value::F32(float),
            Value::F64(_) => Value::F64(f64::from(float)),
            other => other,
        };
        load(&file.set(&key, value).bytes());
    }
}
