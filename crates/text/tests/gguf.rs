//! Tokenizers made of the metadata of GGUF files, against the files that the metadata were made of.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use espalier_gguf::{Array, GgufWriter, Metadata, Value as Entry};
use espalier_text::{GgufTokenizer, Message, Parts, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};

const ROWS: usize = 4100;

fn shipped(model: &str) -> Tokenizer {
    Tokenizer::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(model)).unwrap()
}

/// A folder with a file of this metadata.
fn folder(metadata: &Metadata) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let bytes = GgufWriter::begin(Vec::new(), metadata, &[]).unwrap().finish().unwrap();
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn whole(tokenizer: &Tokenizer) -> Metadata {
    let made = GgufTokenizer::of(tokenizer, ROWS).unwrap();
    assert!(made.is_whole);
    made.metadata
}

/// The tokenizer that is made of what a file says of another.
fn through_a_file(tokenizer: &Tokenizer) -> Tokenizer {
    let (_folder, path) = folder(&whole(tokenizer));
    Tokenizer::open(&path).unwrap()
}

/// The shipped tokenizer with a change to its `tokenizer.json`.
fn changed(change: impl Fn(&mut Value)) -> Tokenizer {
    let parts = shipped("small").parts().clone();
    let mut file = serde_json::from_slice(&parts.tokenizer).unwrap();
    change(&mut file);
    Tokenizer::from_parts(Parts { tokenizer: file.to_string().into_bytes(), ..parts }).unwrap()
}

/// `pre_tokenizer` as it stands in the files of Llama 3 and Qwen 2.
fn split(digits: &str) -> Value {
    let pattern = format!(
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+|{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    );
    json!({ "type": "Sequence", "pretokenizers": [
        { "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false },
        { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false },
    ]})
}

fn llama3() -> Tokenizer {
    changed(|file| {
        file["pre_tokenizer"] = split("\\p{N}{1,3}");
        file["model"]["ignore_merges"] = json!(true);
    })
}

fn qwen2() -> Tokenizer {
    changed(|file| {
        file["normalizer"] = json!({ "type": "NFC" });
        file["pre_tokenizer"] = split("\\p{N}");
        file["post_processor"] = Value::Null;
    })
}

fn smollm() -> Tokenizer {
    changed(|file| {
        let words = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
        let digits = json!({ "type": "Digits", "individual_digits": true });
        file["pre_tokenizer"] = json!({ "type": "Sequence", "pretokenizers": [digits, words] });
    })
}

fn kind(metadata: &Metadata) -> &str {
    metadata.required("tokenizer.ggml.pre").unwrap()
}

#[test]
fn kinds_are_known_by_how_they_find_words() {
    let kinds = [shipped("medium"), llama3(), qwen2(), smollm()].map(|tokenizer| kind(&whole(&tokenizer)).to_owned());
    assert_eq!(kinds, ["gpt-2", "llama-bpe", "qwen2", "smollm"]);
}

#[test]
fn prompts_and_answers_have_the_same_tokens() {
    for model in ["small", "medium"] {
        let (original, made) = (shipped(model), through_a_file(&shipped(model)));
        assert_eq!((made.fingerprint(), made.vocab_size()), (original.fingerprint(), original.vocab_size()));
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(model).join("greedy.jsonl");
        for line in fs::read_to_string(samples).unwrap().lines() {
            let sample: Value = serde_json::from_str(line).unwrap();
            let prompt = Message::user(sample["prompt"].as_str().unwrap()).into();
            assert_eq!(json!(made.encode_chat(&prompt).unwrap()), sample["prompt_ids"]);
            let answer: Vec<u32> = serde_json::from_value(sample["greedy_ids"].clone()).unwrap();
            assert_eq!(made.decode(&answer).unwrap(), original.decode(&answer).unwrap());
        }
    }
}

#[test]
fn a_tokenizer_beside_the_file_goes_first() {
    let (folder, path) = folder(&whole(&shipped("small")));
    fs::write(folder.path().join("tokenizer.json"), &llama3().parts().tokenizer).unwrap();
    let found = Tokenizer::open(&path).unwrap();
    assert_eq!(found.parts().tokenizer, llama3().parts().tokenizer);
    assert_eq!(
        found.chat(&Message::user("a").into()).unwrap(),
        shipped("small").chat(&Message::user("a").into()).unwrap()
    );
    fs::write(folder.path().join("tokenizer_config.json"), "{}").unwrap();
    assert!(!Tokenizer::open(folder.path()).unwrap().has_chat_template());
}

#[test]
fn other_tokenizers_keep_their_template_only() {
    let stripping = changed(|file| file["added_tokens"][3]["lstrip"] = json!(true));
    let spaced = changed(|file| file["pre_tokenizer"]["add_prefix_space"] = json!(true));
    let unknowing = changed(|file| file["model"]["unk_token"] = json!("<unk>"));
    for other in [stripping, spaced, unknowing] {
        let made = GgufTokenizer::of(&other, ROWS).unwrap();
        assert!(!made.is_whole);
        let keys: Vec<&str> = made.metadata.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["tokenizer.chat_template"]);
    }
}

#[test]
fn what_cannot_be_made_is_refused_with_a_sentence() {
    let fault = |changes: &[(&str, Entry)]| {
        let mut metadata = whole(&shipped("small"));
        metadata.extend(changes.iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value.clone())));
        let (_folder, path) = folder(&metadata);
        let message = Tokenizer::open(&path).unwrap_err().to_string();
        message.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&message).to_owned()
    };
    let text = |text: &str| Entry::String(text.to_owned());
    let texts = |texts: &[&str]| Entry::Array(Array::String(texts.iter().map(|&text| text.to_owned()).collect()));
    let kind = fault(&[("model", text("llama"))]);
    let expected = "its tokenizer is of the kind \"llama\", and only byte-level BPE, \"gpt2\", is made of metadata; a \
                    tokenizer.json beside the file will do";
    assert_eq!(kind, expected);
    let words = fault(&[("pre", text("tekken"))]);
    let expected = "its tokenizer finds words in the way \"tekken\", and only gpt-2, llama-bpe, qwen2 and smollm are \
                    known; a tokenizer.json beside the file will do";
    assert_eq!(words, expected);
    let short = fault(&[("token_type", Entry::Array(Array::I32(vec![1, 1])))]);
    assert_eq!(short, format!("`tokenizer.ggml.token_type` has 2 elements for {ROWS} tokens"));
    let odd = fault(&[("token_type", Entry::Array(Array::I32(vec![6; ROWS])))]);
    assert_eq!(odd, "token 0 is of type 6, and byte-level BPE has the types 1 to 5");
    let types = ("token_type", Entry::Array(Array::I32(vec![1, 1])));
    assert_eq!(fault(&[("tokens", texts(&["a", "a"])), types]), "token 1 is \"a\", as an earlier one is");
    let none = fault(&[("bos_token_id", Entry::U32(9999))]);
    assert_eq!(none, format!("`tokenizer.ggml.bos_token_id` is 9999, and there are {ROWS} tokens"));
    let merge = fault(&[("merges", texts(&["a b", "ab"]))]);
    assert_eq!(merge, "merge 1 is \"ab\", and one is two texts with a space between");
    let stranger = fault(&[("merges", texts(&["no token"]))]);
    assert!(stranger.starts_with("tokenizer.json is malformed: "), "{stranger}");
    let typed = fault(&[("tokens", Entry::U32(1))]);
    assert_eq!(typed, "metadata entry \"tokenizer.ggml.tokens\" is u32, expected array of string");
}

/// A tokenizer of each kind, and what is made of its metadata.
static PAIRS: LazyLock<Vec<[Tokenizer; 2]>> = LazyLock::new(|| {
    let originals = [shipped("small"), llama3(), qwen2(), smollm()];
    originals.into_iter().map(|original| [through_a_file(&original), original]).collect()
});

/// A file with few tokens, which are the better part of it.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let few = changed(|file| {
        let vocab = file["model"]["vocab"].as_object_mut().unwrap();
        vocab.retain(|_, token| token.as_u64().unwrap() < 300);
        let known: Vec<String> = vocab.keys().cloned().collect();
        let part = |merge: &Value, at: usize| merge[at].as_str().unwrap().to_owned();
        let merges = file["model"]["merges"].as_array_mut().unwrap();
        merges.retain(|merge| known.contains(&(part(merge, 0) + &part(merge, 1))));
    });
    let metadata = GgufTokenizer::of(&few, 0).unwrap().metadata;
    GgufWriter::begin(Vec::new(), &metadata, &[]).unwrap().finish().unwrap()
});

proptest! {
    #[test]
    fn any_text_has_the_same_tokens(text in "([a-zA-Z' ]{0,6}|[0-9 ]{0,5}|\\PC{0,8}|[\\r\\n\\t ]{0,3}|<s>|</s>|<\\|user\\|>){0,12}") {
        for [made, original] in &*PAIRS {
            for special in [false, true] {
                let tokens = original.encode(&text, special).unwrap();
                prop_assert_eq!(&made.encode(&text, special).unwrap(), &tokens);
                prop_assert_eq!(made.decode(&tokens).unwrap(), original.decode(&tokens).unwrap());
            }
        }
    }

    #[test]
    fn no_changed_byte_does_harm(at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = FILE.clone();
        let at = at % bytes.len();
        bytes[at] = byte;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.gguf"), &bytes).unwrap();
        if let Ok(tokenizer) = Tokenizer::open(folder.path()) {
            let _ = tokenizer.encode("abc ab 12 <s>", true);
        }
    }
}
