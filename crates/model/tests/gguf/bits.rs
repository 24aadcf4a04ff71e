//! Floats stay what they are, so logits are the same bits.

use espalier_model::{DraftModel, LoadOptions, TensorType, fingerprint, model_name};

use super::*;

#[test]
fn floats_give_the_bits_of_the_checkpoint() {
    for path in GOLDEN.map(golden) {
        for kind in [None, Some(TensorType::F32)] {
            assert_eq!(logits(converted(&path, kind).path()), logits(&path), "{}", path.display());
        }
    }
    for kind in [None, Some(TensorType::BF16), Some(TensorType::F32)] {
        assert_eq!(logits(converted(&small(), kind).path()), logits(&small()), "{kind:?}");
    }
}

#[test]
fn rounded_floats_are_the_same_in_a_wider_type() {
    for path in GOLDEN.map(golden) {
        for kind in [TensorType::F16, TensorType::BF16] {
            let rounded = converted(&path, Some(kind));
            let wide = converted(rounded.path(), Some(TensorType::F32));
            assert_eq!(logits(wide.path()), logits(rounded.path()), "{} {kind}", path.display());
        }
    }
}

#[test]
fn a_file_made_of_a_file_is_the_same_file() {
    for path in GOLDEN.map(golden) {
        let first = converted(&path, None);
        let file = first.path().join("model.gguf");
        let second = converted(&file, None);
        let again = converted(&second.path().join("model.gguf"), None);
        let bytes = |folder: &TempDir| fs::read(folder.path().join("model.gguf")).unwrap();
        assert_eq!(bytes(&again), bytes(&second), "{}", path.display());
        assert_eq!(fingerprint(&file).unwrap(), fingerprint(first.path()).unwrap());
    }
}

#[test]
fn the_configuration_is_the_checkpoint_s() {
    for path in GOLDEN.map(golden).into_iter().chain([small()]) {
        let folder = converted(&path, None);
        let (found, expected) = (Checkpoint::open(folder.path()).unwrap(), Checkpoint::open(&path).unwrap());
        assert_eq!(found.config, expected.config);
        let file = Checkpoint::open(folder.path().join("model.gguf")).unwrap();
        assert_eq!((file.config.clone(), file.name()), (expected.config, "model"));
        assert_eq!(model_name(&file.path), Some("model"));
    }
}

#[test]
fn a_drafter_keeps_its_exits() {
    let folder = tempfile::tempdir().unwrap();
    let export = GgufExport { exits: Some(vec![1, 3]), ..GgufExport::default() };
    let file = File::create(folder.path().join("drafter.gguf")).unwrap();
    export.write(&Checkpoint::open(golden("qwen3")).unwrap(), file, |_, _| {}).unwrap();
    let drafter = DraftModel::open(folder.path(), None, &LoadOptions::default()).unwrap();
    assert_eq!((drafter.exits(), drafter.decoder().layers()), (&[1, 3][..], 3));
}

#[test]
fn tensors_say_how_they_are_stored() {
    let folder = converted(&golden("qwen3"), Some(TensorType::Q8_0));
    let weights = Checkpoint::open(folder.path()).unwrap().weights().unwrap();
    let kinds = ["model.embed_tokens", "model.layers.0.self_attn.q_proj", "model.norm"];
    let kinds = kinds.map(|name| weights.kind(&format!("{name}.weight")).unwrap());
    assert_eq!(kinds, [TensorType::Q8_0, TensorType::Q8_0, TensorType::F32]);
    assert!(weights.has("lm_head.weight") && !weights.has("output.weight"));
}
