//! `tokenizer.json` and `tokenizer_config.json`.

use espalier_text::{GgufTokenizer, Parts, Tokenizer};
use serde_json::{Value, json};

use crate::target::{Target, refused};

pub(crate) const TOKENIZER: Target = Target {
    name: "tokenizer",
    about: "A tokenizer.json is refused, or makes tokens of texts and texts of tokens.",
    run: |bytes| {
        let parts = Parts { tokenizer: bytes.to_vec(), config: None, chat_template: None };
        match Tokenizer::from_parts(parts) {
            Err(refusal) => refused(&refusal),
            Ok(tokenizer) => {
                use_tokenizer(&tokenizer);
                let _ = GgufTokenizer::of(&tokenizer, 4);
                true
            }
        }
    },
    seeds: || tokenizers().iter().map(|tokenizer| tokenizer.to_string().into_bytes()).collect(),
    tries: 1000,
    memory_max: 4 << 20,
};

pub(crate) const SETTINGS: Target = Target {
    name: "tokenizer-config",
    about: "A tokenizer_config.json is refused, or what it says of special tokens and of a template can be used.",
    run: |bytes| {
        let config = Some(bytes.to_vec());
        let parts = Parts { tokenizer: tiny().to_string().into_bytes(), config, chat_template: None };
        match Tokenizer::from_parts(parts) {
            Err(refusal) => refused(&refusal),
            Ok(tokenizer) => {
                assert_eq!(tokenizer.has_chat_template(), tokenizer.chat_template().is_some());
                let _ = GgufTokenizer::of(&tokenizer, 4);
                true
            }
        }
    },
    seeds: || {
        let one = json!({ "bos_token": "<s>", "eos_token": { "content": "<s>" }, "chat_template": "{{ bos_token }}" });
        let several =
            json!({ "chat_template": [{ "name": "default", "template": "a" }, { "name": "b", "template": "" }] });
        vec![one.to_string().into_bytes(), several.to_string().into_bytes()]
    },
    tries: 600,
    memory_max: 4 << 20,
};

/// Texts through a tokenizer, and tokens that there may not be.
pub(crate) fn use_tokenizer(tokenizer: &Tokenizer) {
    for text in ["", "abc ab 12 <s>", "Ünïcödé \u{1f980}\u{301}\n\n  don't\0", &"ab ".repeat(40)] {
        for special in [false, true] {
            if let Ok(tokens) = tokenizer.encode(text, special) {
                let _ = tokenizer.decode(&tokens);
            }
        }
    }
    let mut decoder = tokenizer.decoder();
    for token in (0..12).chain([u32::MAX]) {
        let _ = decoder.push(token);
    }
    let _ = decoder.finish();
    assert!(tokenizer.vocab_size() <= u32::MAX as usize + 1, "a token is a number of 32 bits");
}

/// A few tokens of byte-level BPE, in the form that GGUF files can hold.
pub(crate) fn tiny() -> Value {
    let byte_level = |use_regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex });
    let special = json!({
        "id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true,
    });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special], "normalizer": null,
        "pre_tokenizer": byte_level(true),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "<s>": { "id": "<s>", "ids": [0], "tokens": ["<s>"] } },
        },
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": { "<s>": 0, "a": 1, "b": 2, "Ġ": 3, "ab": 4, "Ġab": 5, "1": 6 },
            "merges": [["a", "b"], ["Ġ", "ab"]],
        },
    })
}

/// One of each kind that checkpoints have, with most parts that there are.
fn tokenizers() -> Vec<Value> {
    let with = |model: Value, parts: &[(&str, Value)]| {
        let mut tokenizer = tiny();
        tokenizer["model"] = model;
        parts.iter().for_each(|(part, value)| tokenizer[*part] = value.clone());
        tokenizer
    };
    let llama2 = with(
        json!({
            "type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "fuse_unk": true,
            "vocab": { "<s>": 0, "<unk>": 1, "▁": 2, "a": 3, "b": 4, "<0x0A>": 5, "▁a": 6 }, "merges": ["▁ a"],
        }),
        &[
            (
                "normalizer",
                json!({ "type": "Sequence", "normalizers": [
                    { "type": "Prepend", "prepend": "▁" },
                    { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
                ]}),
            ),
            ("pre_tokenizer", Value::Null),
            ("post_processor", Value::Null),
            (
                "decoder",
                json!({ "type": "Sequence", "decoders": [
                    { "type": "Replace", "pattern": { "String": "▁" }, "content": " " }, { "type": "ByteFallback" },
                    { "type": "Fuse" }, { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
                ]}),
            ),
        ],
    );
    let unigram = with(
        json!({ "type": "Unigram", "unk_id": 1, "byte_fallback": false,
            "vocab": [["<s>", 0.0], ["<unk>", -1.0], ["▁a", -2.0], ["b", -3.5]] }),
        &[
            ("normalizer", json!({ "type": "NFKC" })),
            (
                "pre_tokenizer",
                json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true }),
            ),
            ("decoder", json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true })),
        ],
    );
    let word_piece = with(
        json!({ "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": { "<s>": 0, "[UNK]": 1, "ab": 2, "##c": 3 } }),
        &[
            (
                "normalizer",
                json!({ "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                "strip_accents": null, "lowercase": true }),
            ),
            ("pre_tokenizer", json!({ "type": "BertPreTokenizer" })),
            ("decoder", json!({ "type": "WordPiece", "prefix": "##", "cleanup": true })),
        ],
    );
    let split = json!({ "type": "Split", "pattern": { "Regex": "\\p{N}{1,3}|\\s+(?!\\S)|[^ ]+" },
        "behavior": "Isolated", "invert": false });
    let digits = json!({ "type": "Digits", "individual_digits": true });
    let splitting = with(
        tiny()["model"].clone(),
        &[("pre_tokenizer", json!({ "type": "Sequence", "pretokenizers": [split, digits, tiny()["pre_tokenizer"]] }))],
    );
    vec![tiny(), llama2, unigram, word_piece, splitting]
}
