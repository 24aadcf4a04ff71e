//! What another implementation has computed.

use espalier_model::Golden;

use crate::folder::{File, Folder};
use crate::parts::{joined, split};
use crate::target::{Target, refused};
use crate::tiny::{self, Listed, WIDTH};

pub(crate) const TARGET: Target = Target {
    name: "golden",
    about: "A folder of golden.json and golden.safetensors is refused, or its rows can be compared with themselves.",
    run: |bytes| {
        let [text, tensors] = split(bytes);
        let files = [File { name: "golden.json", bytes: text }, File { name: "golden.safetensors", bytes: tensors }];
        match Golden::open(Folder::of(&files).path()) {
            Err(refusal) => refused(&refusal),
            Ok(golden) => {
                for matrix in golden.taps.iter().map(|tap| &tap.hidden).chain([&golden.logits]) {
                    if let Ok(comparison) = matrix.compare(&matrix.values) {
                        assert_eq!(comparison.arg_max_differs, 0, "a row differs from itself");
                    }
                }
                true
            }
        }
    },
    seeds: || {
        let listed = |name: &str| Listed { name: name.to_owned(), shape: vec![2, WIDTH] };
        let floats = tiny::file("F32", [listed("logits"), listed("hidden_after_layer_1")].into_iter());
        let text = br#"{"prompt_ids": [1, 2], "greedy_ids": [3], "bf16_max_abs": 0.01}"#;
        vec![joined(&[text, &with_tokens(&floats)])]
    },
    tries: 600,
    memory_max: 1 << 20,
};

/// The same with a text of two tokens, which are integers.
fn with_tokens(file: &[u8]) -> Vec<u8> {
    let (length, rest) = file.split_at(8);
    let length = length.iter().rev().fold(0, |length: usize, &byte| length << 8 | usize::from(byte));
    let (header, data) = rest.split_at(length);
    let mut header: serde_json::Value = serde_json::from_slice(header).expect("it is JSON");
    header["input_ids"] =
        serde_json::json!({ "dtype": "I64", "shape": [2], "data_offsets": [data.len(), data.len() + 16] });
    let header = header.to_string();
    let tokens = [1u64.to_le_bytes(), 2u64.to_le_bytes()].concat();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data, &tokens].concat()
}
