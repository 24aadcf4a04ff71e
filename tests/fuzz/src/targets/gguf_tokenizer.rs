//! Tokenizers in the metadata of GGUF files.

use espalier_gguf::{GgufWriter, Metadata};
use espalier_text::{GgufTokenizer, Parts, Tokenizer};
use serde_json::json;

use crate::folder::{File, Folder};
use crate::target::{Target, refused};
use crate::targets::tokenizer::{tiny, use_tokenizer};

pub(crate) const TARGET: Target = Target {
    name: "gguf-tokenizer",
    about: "A GGUF file is refused as a tokenizer, or makes tokens of texts and texts of tokens.",
    run: |bytes| {
        let folder = Folder::of(&[File { name: "model.gguf", bytes }]);
        match Parts::read(folder.path()).and_then(Tokenizer::from_parts) {
            Err(refusal) => refused(&refusal),
            Ok(tokenizer) => {
                use_tokenizer(&tokenizer);
                true
            }
        }
    },
    seeds: || {
        let config = json!({ "bos_token": "<s>", "chat_template": "{{ bos_token }}" }).to_string().into_bytes();
        let parts = Parts { tokenizer: tiny().to_string().into_bytes(), config: Some(config), chat_template: None };
        let made = Tokenizer::from_parts(parts).and_then(|tokenizer| GgufTokenizer::of(&tokenizer, 9));
        let made = made.expect("the tokenizer is whole");
        assert!(made.is_whole, "the tokenizer can be held by a GGUF file");
        vec![file(&made.metadata)]
    },
    tries: 500,
    memory_max: 4 << 20,
};

fn file(metadata: &Metadata) -> Vec<u8> {
    GgufWriter::begin(Vec::new(), metadata, &[]).and_then(GgufWriter::finish).expect("it can be written")
}
