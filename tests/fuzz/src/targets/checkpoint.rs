//! Folders in Hugging Face format.

use crate::folder::{File, Folder};
use crate::parts::{joined, split};
use crate::target::Target;
use crate::targets::model;
use crate::tiny;

pub(crate) const TARGET: Target = Target {
    name: "checkpoint",
    about: "A folder of config.json, generation_config.json, an index of shards and tensors is refused, or runs; a GGUF \
            file that is made of it describes the same model.",
    run: |bytes| {
        let [config, generation, index, tensors] = split(bytes);
        let described = [("config.json", config), ("generation_config.json", generation)];
        let stored = match index {
            [] => [("model.safetensors", tensors)].to_vec(),
            _ => [("model.safetensors.index.json", index), ("1.safetensors", tensors)].to_vec(),
        };
        let files = described.into_iter().chain(stored).filter(|(_, bytes)| !bytes.is_empty());
        let files: Vec<File<'_>> = files.map(|(name, bytes)| File { name, bytes }).collect();
        let folder = Folder::of(&files);
        let runs = model::run_all(folder.path());
        if runs {
            model::check_conversion(folder.path());
        }
        runs
    },
    seeds: || {
        let index = br#"{"weight_map": {"model.norm.weight": "1.safetensors"}}"#;
        let indices: [&[u8]; 4] = [b"", index, b"", b""];
        let seed = |(tiny, index): (tiny::Tiny, &[u8])| {
            joined(&[tiny.config.as_bytes(), tiny.generation.as_bytes(), index, &tiny.tensors])
        };
        tiny::all().into_iter().zip(indices).map(seed).collect()
    },
    tries: 300,
    memory_max: model::MEMORY_MAX,
};
