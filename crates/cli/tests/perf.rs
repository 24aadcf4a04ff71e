//! `espalier bench perf` with programs that only say what they measured.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A program that answers every call with `line`, and ends with `code`.
fn program(folder: &Path, name: &str, line: &str, code: i32) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\necho '{line}'\necho 'its error' >&2\nexit {code}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn arm(tokens_per_second: f64) -> String {
    format!(r#"{{"drafter": "none", "policy": "-", "tokens_per_second": {tokens_per_second}}}"#)
}

fn perf(base: &Path, new: &Path, extra: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.args(["bench", "perf"]).arg(base).arg("--new").arg(new);
    command.args(["--prompts", "p.jsonl", "--turns", "6", "--only", "medium"]).args(extra).output().unwrap()
}

#[test]
fn the_ratio_of_two_builds_is_told_with_its_interval() {
    let folder = tempfile::tempdir().unwrap();
    let [base, new] = [("base", 100.0), ("new", 110.0)].map(|(name, rate)| program(folder.path(), name, &arm(rate), 0));
    let output = perf(&base, &new, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((told["suite"].as_str(), told["measurement"].as_str()), (Some("medium"), Some("none, -")));
    assert_eq!((told["turns"].as_u64(), told["unit"].as_str()), (Some(6), Some("tokens/s")));
    for key in ["ratio", "ratio_low", "ratio_high"] {
        assert_eq!(told[key].as_f64(), Some(1.1), "{key}");
    }
    let table = String::from_utf8(perf(&base, &new, &[]).stdout).unwrap();
    assert!(table.contains("medium: none, -") && table.contains("faster"), "{table}");
}

#[test]
fn a_build_that_is_surely_slower_than_allowed_is_told_by_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let [base, new] = [("base", 100.0), ("new", 90.0)].map(|(name, rate)| program(folder.path(), name, &arm(rate), 0));
    let code = |extra: &[&str]| perf(&base, &new, extra).status.code();
    assert_eq!((code(&[]), code(&["--least", "0.85"]), code(&["--least", "0.95"])), (Some(0), Some(0), Some(1)));
}

#[test]
fn a_program_that_fails_or_says_nothing_useful_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = program(folder.path(), "good", &arm(100.0), 0);
    let cases = [
        (program(folder.path(), "failing", &arm(1.0), 3), "its error"),
        (program(folder.path(), "talking", "no JSON", 0), "did not print JSON"),
        (program(folder.path(), "other", "{}", 0), "no measurement in common"),
        (folder.path().join("absent"), "cannot run"),
    ];
    for (new, words) in cases {
        let output = perf(&good, &new, &[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(words), "{error}");
    }
}
