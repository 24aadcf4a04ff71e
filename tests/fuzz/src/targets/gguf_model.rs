//! GGUF files that are whole models.

use espalier_gguf::TensorType;
use espalier_model::{Checkpoint, GgufExport};

use crate::folder::{File, Folder};
use crate::target::Target;
use crate::targets::model;
use crate::tiny;

pub(crate) const TARGET: Target = Target {
    name: "gguf-model",
    about: "A GGUF file is refused as a model, or runs.",
    run: |bytes| model::run_all(&Folder::of(&[File { name: "model.gguf", bytes }]).path().join("model.gguf")),
    seeds: || {
        tiny::convertible()
            .iter()
            .flat_map(|tiny| [None, Some(TensorType::BF16)].map(|kind| converted(tiny, kind)))
            .collect()
    },
    tries: 300,
    memory_max: model::MEMORY_MAX,
};

fn converted(tiny: &tiny::Tiny, kind: Option<TensorType>) -> Vec<u8> {
    let folder = Folder::of(&[
        File { name: "config.json", bytes: tiny.config.as_bytes() },
        File { name: "model.safetensors", bytes: &tiny.tensors },
    ]);
    let checkpoint = Checkpoint::open(folder.path()).expect("the checkpoint is whole");
    let mut bytes = Vec::new();
    let export = GgufExport { kind, ..GgufExport::default() };
    export.write(&checkpoint, &mut bytes, |_, _| {}).expect("the checkpoint can be a GGUF file");
    bytes
}
