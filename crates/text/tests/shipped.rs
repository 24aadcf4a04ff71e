//! The tokenizer of the shipped targets, against prompts that Hugging Face transformers tokenized.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use espalier_text::{Message, Parts, TextError, Tokenizer};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Sample {
    prompt: String,
    prompt_ids: Vec<u32>,
    greedy_ids: Vec<u32>,
}

fn folder(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(model)
}

fn samples(model: &str) -> Vec<Sample> {
    let text = fs::read_to_string(folder(model).join("greedy.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tokenizer() -> Tokenizer {
    Tokenizer::open(&folder("small")).unwrap()
}

/// All pieces of an incremental decoder, the last by `finish`.
fn pieces(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<String> {
    let mut decoder = tokenizer.decoder();
    let mut pieces: Vec<String> = tokens.iter().filter_map(|&token| decoder.push(token).unwrap()).collect();
    pieces.extend(decoder.finish().unwrap());
    pieces
}

#[test]
fn chat_prompts_have_the_tokens_of_transformers() {
    for model in ["small", "medium"] {
        let tokenizer = Tokenizer::open(&folder(model)).unwrap();
        let samples = samples(model);
        assert_eq!(samples.len(), 24);
        for sample in samples {
            let ids = tokenizer.encode_chat(&Message::user(&sample.prompt).into()).unwrap();
            assert_eq!(ids, sample.prompt_ids, "{}", sample.prompt);
        }
    }
}

#[test]
fn the_template_knows_all_roles() {
    let turns = [("system", "Be brief."), ("user", " 1 + 1? "), ("assistant", "2"), ("user", "Sure?")];
    let messages: Vec<_> = turns.into_iter().map(|(role, content)| Message::new(role, content)).collect();
    let expected = "<s><|system|>\nBe brief.\n<|user|>\n1 + 1?\n<|assistant|>\n2</s><|user|>\nSure?\n<|assistant|>\n";
    assert_eq!(tokenizer().chat(&messages.into()).unwrap(), expected);
}

#[test]
fn special_tokens_are_added_on_request_and_never_decoded() {
    let tokenizer = tokenizer();
    let bare = tokenizer.encode("one apple", false).unwrap();
    let whole = tokenizer.encode("one apple", true).unwrap();
    assert_eq!(whole, [&[1], bare.as_slice()].concat());
    assert_eq!(tokenizer.decode(&whole).unwrap(), "one apple");
}

#[test]
fn incremental_decoding_equals_decoding_of_generated_text() {
    let tokenizer = tokenizer();
    for sample in samples("small") {
        let pieces = pieces(&tokenizer, &sample.greedy_ids);
        assert_eq!(pieces.concat(), tokenizer.decode(&sample.greedy_ids).unwrap());
        assert!(pieces.len() * 2 > sample.greedy_ids.len(), "text streams token by token");
    }
}

#[test]
fn a_character_of_several_tokens_comes_whole() {
    let tokenizer = tokenizer();
    let text = "naïve 🦀 中文";
    let tokens = tokenizer.encode(text, false).unwrap();
    let pieces = pieces(&tokenizer, &tokens);
    assert!(tokens.len() > text.chars().count(), "some characters take several tokens");
    assert_eq!(pieces.concat(), text);
    assert!(!pieces.concat().contains(char::REPLACEMENT_CHARACTER));
}

#[test]
fn both_targets_share_one_fingerprint() {
    let (small, medium) = (tokenizer(), Tokenizer::open(&folder("medium")).unwrap());
    assert_eq!(small.fingerprint(), medium.fingerprint());
    assert_eq!(small.fingerprint().len(), 64);
    assert_eq!(small.vocab_size(), 4096);
}

#[test]
fn parts_rebuild_the_tokenizer() {
    let original = tokenizer();
    let rebuilt = Tokenizer::from_parts(original.parts().clone()).unwrap();
    let messages = Message::user("How many?").into();
    assert_eq!(rebuilt.fingerprint(), original.fingerprint());
    assert_eq!(rebuilt.encode_chat(&messages).unwrap(), original.encode_chat(&messages).unwrap());
}

#[test]
fn a_tokenizer_without_a_template_still_tokenizes() {
    let parts = Parts { config: None, ..tokenizer().parts().clone() };
    let bare = Tokenizer::from_parts(parts).unwrap();
    assert!(!bare.has_chat_template());
    assert_eq!(bare.encode("two", false).unwrap(), tokenizer().encode("two", false).unwrap());
    assert!(matches!(bare.chat(&Message::user("two").into()), Err(TextError::NoTemplate)));
}

#[test]
fn a_template_file_wins_over_the_configuration() {
    let parts = Parts {
        chat_template: Some(b"{{ bos_token }}Q: {{ messages[0].content }}\nA:".to_vec()),
        ..tokenizer().parts().clone()
    };
    let prompt = Tokenizer::from_parts(parts).unwrap().chat(&Message::user("why?").into()).unwrap();
    assert_eq!(prompt, "<s>Q: why?\nA:");
}

#[test]
fn faults_are_one_clear_sentence() {
    let message = |parts: Parts| Tokenizer::from_parts(parts).unwrap_err().to_string();
    let sound = tokenizer().parts().clone();
    let with_tokenizer = |tokenizer: &[u8]| Parts { tokenizer: tokenizer.to_vec(), ..sound.clone() };
    assert!(message(with_tokenizer(b"{")).starts_with("tokenizer.json is malformed: "));
    assert!(message(with_tokenizer(&sound.tokenizer[..5000])).starts_with("tokenizer.json is malformed: "));
    let config = Some(b"[]".to_vec());
    assert!(message(Parts { config, ..sound.clone() }).starts_with("tokenizer_config.json is malformed: "));
    let chat_template = Some(b"{% if %}".to_vec());
    let broken = Tokenizer::from_parts(Parts { chat_template, ..sound.clone() }).unwrap();
    let fault = broken.chat(&Message::user("why?").into()).unwrap_err().to_string();
    assert!(fault.starts_with("the chat template cannot be parsed: "), "{fault}");
    let empty = tempfile::tempdir().unwrap();
    let missing = Tokenizer::open(empty.path()).unwrap_err().to_string();
    assert_eq!(missing, format!("{} has no tokenizer.json", empty.path().display()));
}

proptest! {
    #[test]
    fn pieces_of_any_tokens_add_up(tokens in prop::collection::vec(0u32..5000, 0..200)) {
        let tokenizer = tokenizer();
        prop_assert_eq!(pieces(&tokenizer, &tokens).concat(), tokenizer.decode(&tokens).unwrap());
    }

    #[test]
    fn any_text_survives_the_round_trip(text in "\\PC{0,80}") {
        let tokenizer = tokenizer();
        let tokens = tokenizer.encode(&text, false).unwrap();
        prop_assert_eq!(pieces(&tokenizer, &tokens).concat(), text);
    }
}
