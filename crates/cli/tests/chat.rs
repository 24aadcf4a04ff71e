//! `espalier chat` where lines come from a script: what was said is remembered, changed, cut and kept.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

fn espalier(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.args(args).env("ESPALIER_MODELS", models()).env_remove("ESPALIER_GATEWAY").stdin(Stdio::null());
    command
}

fn started(args: &[&str]) -> Child {
    let mut command = espalier(&[&["chat", "small"], args].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn chat(args: &[&str], lines: &str) -> Output {
    let mut process = started(args);
    process.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    process.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn an_answer_is_that_of_generate_and_the_next_one_knows_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("said.json");
    let save = format!("/save {}", file.display());
    let length = ["--max-tokens", "24"];
    let output = chat(&length, &format!("Ann has 3 dogs.\nAnd Bob?\n{save}\n/reset\nAnn has 3 dogs.\n/quit\nnever\n"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut alone =
        espalier(&[&["generate", "--target", "small", "--prompt", "Ann has 3 dogs."], &length[..]].concat());
    let alone = text(&alone.stderr(Stdio::null()).output().unwrap().stdout);
    let said = text(&output.stdout);
    assert!(said.starts_with(&alone) && said.ends_with(&alone), "{said:?} is not {alone:?} twice");
    assert!(said.len() > 2 * alone.len() && !said.contains('\u{1b}'), "{said:?}");
    let figures = text(&output.stderr);
    assert_eq!(figures.matches(" tokens/s, tau ").count(), 3, "{figures}");

    let kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let messages = kept["messages"].as_array().unwrap();
    assert_eq!(
        messages.iter().map(|message| &message["role"]).collect::<Vec<_>>(),
        ["user", "assistant", "user", "assistant"]
    );
    let first = messages[1]["content"].as_str().unwrap();
    assert_eq!((format!("{first}\n"), &kept["model"]), (alone, &Value::from("small")));
    let again = chat(&length, &save);
    assert!(again.status.code() == Some(2) && text(&again.stderr).contains("exists already"), "no file is replaced");
}

#[test]
fn settings_change_what_follows_and_wrong_ones_end_a_script() {
    let length = ["--max-tokens", "16"];
    let lines = "/drafter ngram\nAnn has 3 dogs.\n/drafter none\n/reset\nAnn has 3 dogs.\n/drafter\n/policy constant,k=3\n\
                 /temperature 0.9\n/seed 3\n/reset\nAnn has 3 dogs.\n";
    let output = chat(&length, lines);
    let (said, figures) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{figures}");
    let drafters: Vec<&str> =
        figures.lines().filter_map(|line| line.split_once(" drafted by ").map(|(_, who)| who)).collect();
    assert_eq!(drafters, ["ngram", "none", "sorted"], "{figures}");
    assert!(said.len() > 30, "{said}");
    for (line, words) in [
        ("/policy guess", "unknown policy `guess`"),
        ("/temperature -1", "temperature -1 is not"),
        ("/target huge", "no target `huge` is served here; there are small"),
        ("/drafter huge", "no drafter `huge` is served here; there are sorted, ngram, none"),
        ("/nothing", "there is no /nothing"),
    ] {
        let output = chat(&[], &format!("{line}\nAnn has 3 dogs.\n"));
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{line}");
        assert!(text(&output.stderr).contains(words), "{line}: {}", text(&output.stderr));
    }
}

#[test]
fn a_conversation_that_no_longer_fits_is_cut_from_the_front() {
    let long = "one two three four five six seven ".repeat(120);
    let output = chat(&["--max-tokens", "8"], &format!("{long}\n{long}\n{long}\n{long}\nAnn has 3 dogs.\n"));
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("no longer fits the context: its oldest exchange is left out"), "{told}");
    // What does not fit by itself is refused.
    let output = chat(&[], &format!("{}\n", "one two three ".repeat(2000)));
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("the context of `small` is 2048 tokens"));
}

#[test]
fn an_answer_that_takes_the_whole_context_is_given_as_far_as_it_fits() {
    let output = chat(&["--max-tokens", "4000", "--policy", "constant,k=3"], "Ann has 3 dogs.\n");
    assert!(output.status.success() && !output.stdout.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn a_script_that_is_interrupted_ends_with_what_was_said() {
    let mut process = started(&["--max-tokens", "2000", "--logit-bias", "2=-100"]);
    process.stdin.as_mut().unwrap().write_all(b"Ann has 3 dogs.\n").unwrap();
    let mut first = [0];
    process.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert!(Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap().success());
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(text(&output.stderr).contains("stopped after "), "{}", text(&output.stderr));
}
