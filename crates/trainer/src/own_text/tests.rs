//! Whole texts by small targets.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use espalier_model::{Checkpoint, DeviceKind, Reference};
use espalier_speculation::{Token, arg_max};
use espalier_text::{Message, Tokenizer};
use serde_json::Value;

use super::{TextRecipe, TextSummary, write_text};
use crate::data::{Texts, Voice};
use crate::recipe::DataOptions;
use crate::testing::{checkpoint, shipped, tiny_config};

fn prompts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("What is {i} and {i}?{}", " Think.".repeat(i % 4))).collect()
}

/// Short answers of a target.
fn recipe(target: &Path) -> TextRecipe {
    TextRecipe { max_tokens: 12, answers_at_a_time: 3, threads: 2, ..TextRecipe::new(target.to_owned()) }
}

/// Where texts are written, and nothing else is.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, recipe: &TextRecipe, prompts: &[String]) -> (TextSummary, String) {
        let out = self.0.path().join("text.jsonl");
        let summary = write_text(recipe, prompts, &out, &mut |_| {}, &AtomicBool::new(false)).unwrap().unwrap();
        let text = fs::read_to_string(&out).unwrap();
        fs::remove_file(out).unwrap();
        (summary, text)
    }

    fn lines(&self, recipe: &TextRecipe, prompts: &[String]) -> Vec<Value> {
        self.write(recipe, prompts).1.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn refusal(&self, recipe: &TextRecipe, prompts: &[String]) -> String {
        let out = self.0.path().join("text.jsonl");
        let fault = write_text(recipe, prompts, &out, &mut |_| {}, &AtomicBool::new(false)).unwrap_err();
        assert!(!out.exists());
        fault.to_string()
    }
}

fn tokens(line: &Value) -> Vec<Token> {
    line["token_ids"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

#[test]
fn a_greedy_answer_is_what_the_reference_says_one_token_at_a_time() {
    let target = checkpoint(&tiny_config());
    let reference = Reference::load(&Checkpoint::open(target.path()).unwrap()).unwrap();
    let tokenizer = Tokenizer::open(target.path()).unwrap();
    let prompts = prompts(5);
    let lines = Desk::new().lines(&TextRecipe { greedy_share: 1.0, ..recipe(target.path()) }, &prompts);
    assert_eq!(lines.len(), 5);
    for (line, prompt) in lines.iter().zip(&prompts) {
        let mut text = tokenizer.encode_chat(&Message::user(prompt).into()).unwrap();
        let read = text.len();
        while text.len() < read + 12 && text[read..].last() != Some(&2) {
            let seen = reference.forward_causal(&text).unwrap();
            let rows: Vec<Vec<f32>> = seen.logits.to_vec2().unwrap();
            text.push(arg_max(rows.last().unwrap()).unwrap());
        }
        assert_eq!(tokens(line), text);
        assert_eq!(line["answer"], tokenizer.decode(&text[read..]).unwrap());
        assert_eq!((&line["prompt"], &line["temperature"]), (&prompt.as_str().into(), &0.0.into()));
    }
}

#[test]
fn a_device_writes_what_the_processor_does() {
    let target = checkpoint(&tiny_config());
    let (desk, prompts, recipe) = (Desk::new(), prompts(7), recipe(target.path()));
    let on_device = TextRecipe { device: DeviceKind::Candle, threads: 3, ..recipe.clone() };
    assert_eq!(desk.write(&on_device, &prompts).1, desk.write(&recipe, &prompts).1);
    let elsewhere = TextRecipe { device: DeviceKind::Cuda(0), ..recipe };
    assert!(desk.refusal(&elsewhere, &prompts).contains("device cuda:0"));
}

#[test]
fn a_text_is_a_function_of_prompts_and_seed_alone() {
    let target = checkpoint(&tiny_config());
    let (desk, prompts, recipe) = (Desk::new(), prompts(9), recipe(target.path()));
    let (summary, text) = desk.write(&recipe, &prompts);
    for (answers_at_a_time, threads) in [(1, 1), (9, 1), (2, 3)] {
        let other = TextRecipe { answers_at_a_time, threads, ..recipe.clone() };
        assert_eq!(desk.write(&other, &prompts).1, text);
    }
    assert_ne!(desk.write(&TextRecipe { seed: 1, ..recipe.clone() }, &prompts).1, text);
    assert_eq!(desk.write(&recipe, &prompts[..4]).1, text.split_inclusive('\n').take(4).collect::<String>());
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(summary.answers, 9);
    let written: usize = lines.iter().map(|line| tokens(line).len()).sum();
    assert_eq!(summary.prompt_tokens + summary.answer_tokens, written);
    let greedy = lines.iter().filter(|line| line["temperature"] == 0.0).count();
    assert!((1..9).contains(&greedy), "some of both: {greedy}");
}

#[test]
fn drawn_answers_are_drawn_at_their_temperature() {
    let target = checkpoint(&tiny_config());
    let (desk, prompts) = (Desk::new(), prompts(3));
    let drawn = TextRecipe { greedy_share: 0.0, temperature: 0.7, ..recipe(target.path()) };
    let lines = desk.lines(&drawn, &prompts);
    assert!(lines.iter().all(|line| line["temperature"] == 0.7));
    // At a temperature close to 0 a draw is the most probable token, whatever the noise.
    let cold = TextRecipe { temperature: 1e-6, ..drawn.clone() };
    let greedy = TextRecipe { greedy_share: 1.0, ..drawn.clone() };
    let token_ids = |recipe| desk.lines(recipe, &prompts).iter().map(tokens).collect::<Vec<_>>();
    assert_eq!(token_ids(&cold), token_ids(&greedy));
    assert_ne!(token_ids(&drawn), token_ids(&greedy));
}

#[test]
fn training_reads_the_tokens_as_they_were_said() {
    let target = checkpoint(&tiny_config());
    let (desk, out) = (Desk::new(), tempfile::NamedTempFile::new().unwrap());
    let (_, text) = desk.write(&recipe(target.path()), &prompts(6));
    fs::write(&out, &text).unwrap();
    let data = DataOptions { files: vec![out.path().to_owned()], validation_share: 0.0, ..DataOptions::default() };
    let texts = Texts::read(&data, &Voice::of(target.path()).unwrap(), 0).unwrap();
    let lines = text.lines().map(|line| tokens(&serde_json::from_str(line).unwrap()));
    assert_eq!(texts.training, lines.collect::<Vec<_>>());
}

#[test]
fn an_answer_ends_where_the_context_does() {
    let target = checkpoint(&tiny_config());
    let desk = Desk::new();
    let long = TextRecipe { max_tokens: 1000, raw: true, ..recipe(target.path()) };
    let lines = desk.lines(&long, &["One and one is".to_owned()]);
    assert!(tokens(&lines[0]).len() == 64 || tokens(&lines[0]).last() == Some(&2));
    let tokenizer = Tokenizer::open(target.path()).unwrap();
    assert!(tokens(&lines[0]).starts_with(&tokenizer.encode("One and one is", true).unwrap()));
    let refusal = desk.refusal(&long, &["fine".to_owned(), "and ".repeat(70)]);
    assert!(refusal.starts_with("prompt 2 has 7") && refusal.ends_with("tokens, expected 1 to 63"), "{refusal}");
}

#[test]
fn nothing_is_written_when_told_to_stop() {
    let target = checkpoint(&tiny_config());
    let desk = Desk::new();
    let (stop, out) = (AtomicBool::new(false), desk.0.path().join("sub/text.jsonl"));
    let mut heard = 0;
    let mut note = |_: &TextSummary| {
        heard += 1;
        stop.store(true, Ordering::Relaxed);
    };
    let written = write_text(&recipe(target.path()), &prompts(200), &out, &mut note, &stop).unwrap();
    assert!(written.is_none() && !out.exists() && heard < 200);
    assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_is_refused_at_once() {
    let target = checkpoint(&tiny_config());
    let desk = Desk::new();
    let refusal = |change: fn(&mut TextRecipe)| {
        let mut recipe = recipe(target.path());
        change(&mut recipe);
        desk.refusal(&recipe, &prompts(2))
    };
    assert_eq!(refusal(|r| r.max_tokens = 0), "most tokens of an answer is 0, expected 1 to 65536");
    assert_eq!(refusal(|r| r.greedy_share = 1.1), "the share of greedy answers is 1.1, expected 0 to 1");
    assert_eq!(refusal(|r| r.answers_at_a_time = 0), "answers at a time is 0, expected 1 to 512");
    assert_eq!(refusal(|r| r.temperature = -1.0), "temperature -1 is not a finite number of at least 0");
    assert_eq!(desk.refusal(&recipe(target.path()), &[]), "an empty list of prompts holds no text");
    let out = desk.0.path().join("there.jsonl");
    fs::write(&out, "kept").unwrap();
    let fault = write_text(&recipe(target.path()), &prompts(1), &out, &mut |_| {}, &AtomicBool::new(false));
    assert_eq!(fault.unwrap_err().to_string(), format!("{} exists already", out.display()));
    assert_eq!(fs::read_to_string(out).unwrap(), "kept");
}

/// What the shipped target says is what its folder says that Hugging Face transformers says.
#[test]
fn the_shipped_target_says_what_transformers_says() {
    let folder = shipped("small");
    let text = fs::read_to_string(folder.join("greedy.jsonl")).unwrap();
    let expected: Vec<Value> = text.lines().take(3).map(|line| serde_json::from_str(line).unwrap()).collect();
    let prompts: Vec<String> = expected.iter().map(|line| line["prompt"].as_str().unwrap().to_owned()).collect();
    let recipe = TextRecipe { greedy_share: 1.0, max_tokens: 96, threads: 2, ..TextRecipe::new(folder) };
    for (line, expected) in Desk::new().lines(&recipe, &prompts).iter().zip(&expected) {
        let ids = |key: &str| expected[key].as_array().unwrap().clone();
        assert_eq!(line["token_ids"], Value::from([ids("prompt_ids"), ids("greedy_ids")].concat()));
    }
}
