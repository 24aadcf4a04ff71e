//! What a file holds in blocks goes into products as it is, or nearly so.

use espalier_model::{Compute, DeviceKind};

use super::*;

/// How far logits are off, as a share of their size.
fn error(found: &[f32], exact: &[f32]) -> f32 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>().sqrt();
    norm(&mut exact.iter().zip(found).map(|(a, b)| a - b)) / norm(&mut exact.iter().copied())
}

/// A file of weights of 4 bits, but for those of values and the head, which have 8.
fn mixed(path: &Path) -> TempDir {
    let [mut file, fine] = [TensorType::Q4_0, TensorType::Q8_0].map(|kind| Editable::of(&converted(path, Some(kind))));
    for (tensor, fine) in file.tensors.iter_mut().zip(fine.tensors) {
        if ["attn_v.weight", "output.weight"].iter().any(|name| tensor.0.name.ends_with(name)) {
            *tensor = fine;
        }
    }
    file.write()
}

fn default_of(path: &Path) -> Arithmetic {
    Compute::default().of(&Checkpoint::open(path).unwrap().weights().unwrap(), DeviceKind::Cpu)
}

#[test]
fn a_file_is_run_in_what_it_holds() {
    for path in GOLDEN.map(golden) {
        for (kind, expected) in [
            (None, Arithmetic::F32),
            (Some(TensorType::F16), Arithmetic::F32),
            (Some(TensorType::Q8_0), Arithmetic::Int8),
            (Some(TensorType::Q4_0), Arithmetic::Int8Q4),
        ] {
            assert_eq!(default_of(converted(&path, kind).path()), expected, "{} {kind:?}", path.display());
        }
        assert_eq!(default_of(&path), Arithmetic::F32);
    }
    let mixed = mixed(&golden("qwen3"));
    assert_eq!(default_of(mixed.path()), Arithmetic::Int8Q4);
    let weights = Checkpoint::open(mixed.path()).unwrap().weights().unwrap();
    assert_eq!(Compute::Auto.of(&weights, DeviceKind::Cpu), Arithmetic::Int8Q4);
    assert_eq!(Compute::Draft.of(&weights, DeviceKind::Cpu), Arithmetic::Int8Q4);
    assert_eq!(Compute::Auto.of(&weights, DeviceKind::Candle), Arithmetic::F32);
}

#[test]
fn blocks_give_the_bits_of_their_floats() {
    for path in GOLDEN.map(golden) {
        for kind in [TensorType::Q8_0, TensorType::Q4_0] {
            let blocks = converted(&path, Some(kind));
            let floats = converted(blocks.path(), Some(TensorType::F32));
            for arithmetic in [Arithmetic::F32, Arithmetic::Bf16] {
                let [found, expected] = [&blocks, &floats].map(|folder| logits_in(arithmetic, folder.path()));
                assert_eq!(found, expected, "{} {kind} {arithmetic}", path.display());
            }
        }
    }
}

#[test]
fn integer_products_are_near_those_of_the_file_s_floats() {
    for path in GOLDEN.map(golden) {
        let [eight, four] = [TensorType::Q8_0, TensorType::Q4_0].map(|kind| converted(&path, Some(kind)));
        for (folder, arithmetic) in
            [(&eight, Arithmetic::Int8), (&four, Arithmetic::Int8Q4), (&mixed(&path), Arithmetic::Int8Q4)]
        {
            let error = error(&logits_in(arithmetic, folder.path()), &logits(folder.path()));
            assert!(error < 0.03, "{} {arithmetic}: {error}", path.display());
        }
    }
}

#[test]
fn only_a_head_and_what_a_file_of_4_bits_has_in_more_are_kept_in_more() {
    let bytes = |folder: &TempDir, arithmetic| {
        let options = LoadOptions { arithmetic, ..LoadOptions::default() };
        Decoder::load(&Checkpoint::open(folder.path()).unwrap(), &options).unwrap().weight_bytes()
    };
    let path = golden("qwen3");
    let [four, eight] = [TensorType::Q4_0, TensorType::Q8_0].map(|kind| converted(&path, Some(kind)));
    let sizes = [&four, &eight, &mixed(&path)].map(|folder| bytes(folder, Arithmetic::Int8Q4));
    // Of each 32 weights 34 bytes in place of 20.
    let model = Decoder::load(&Checkpoint::open(&path).unwrap(), &LoadOptions::default()).unwrap();
    let weights = model.config().vocab.next_multiple_of(64) * model.config().hidden;
    assert_eq!(sizes[1] - sizes[0], weights / 32 * 14);
    assert!(sizes.is_sorted_by(|few, more| few < more) && sizes[2] < bytes(&four, Arithmetic::Int8), "{sizes:?}");
}
