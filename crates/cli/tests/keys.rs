//! API keys as a person meets them: made by one command, shown by others.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use clap::Parser;
use espalier_gateway::{Args, Config, Gateway, Profiles, serve};
use espalier_proto::ApiKey;
use espalier_service_kit::bind;
use serde_json::{Value, json};

fn espalier(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.args(args).env_remove("ESPALIER_GATEWAY").env_remove("ESPALIER_API_KEY").stdin(Stdio::null());
    command
}

/// A new key, and its entry.
fn made(name: &str) -> (String, Value) {
    let output = espalier(&["key", name]).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let [key, entry] = text.lines().collect::<Vec<_>>().try_into().unwrap();
    assert!(!String::from_utf8(output.stderr).unwrap().contains(key));
    (key.to_owned(), serde_json::from_str(entry).unwrap())
}

/// Starts a gateway with these keys, and no service behind it.
async fn gateway(file: &Path) -> String {
    let args = ["gateway", "--verifier", "http://127.0.0.1:1", "--keys", file.to_str().unwrap()];
    let config = Config::from_args(&Args::parse_from(args), Profiles::read).unwrap();
    let (gateway, bound) = (Gateway::start(config).await, bind("127.0.0.1:0".parse().unwrap()).await.unwrap());
    let url = bound.url();
    tokio::spawn(serve(gateway, bound, std::future::pending()));
    url
}

/// The exit code and what was said of it.
fn refusal(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn each_key_is_another_one_and_its_entry_has_its_hash() {
    let (one, entry) = made("team a");
    let hash = ApiKey::new(&one).unwrap().hash().to_string();
    assert_eq!(entry, json!({"name": "team a", "sha256": hash}));
    assert_ne!(made("team a").0, one);
    assert_eq!(espalier(&["key", ""]).output().unwrap().status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_answers_who_shows_a_key_that_was_made_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, shown) = (folder.path().join("keys.json"), folder.path().join("key"));
    let (key, mut entry) = made("operator");
    entry["status"] = json!(true);
    std::fs::write(&file, json!({"keys": [entry]}).to_string()).unwrap();
    std::fs::write(&shown, format!("{key}\n")).unwrap();
    let url = gateway(&file).await;

    let top = ["top", "--once", "--json", "--interval", "100ms", "--gateway", &url];
    let with_file = [&top[..], &["--key-file", shown.to_str().unwrap()]].concat();
    assert!(espalier(&with_file).output().unwrap().status.success());
    assert!(espalier(&top).env("ESPALIER_API_KEY", &key).output().unwrap().status.success());
    let (wrong, _) = made("operator");
    for key in [None, Some(&wrong)] {
        let output = espalier(&top).envs(key.map(|key| ("ESPALIER_API_KEY", key))).output().unwrap();
        let (code, error) = refusal(&output);
        assert!(code == 2 && error.contains("no valid API key: ") && !error.contains(&wrong), "{error}");
    }

    let generate = ["generate", "--target", "toy", "--prompt", "a", "--gateway", &url];
    let (code, error) = refusal(&espalier(&generate).env("ESPALIER_API_KEY", &key).output().unwrap());
    assert!(code == 1 && error.contains("unknown target `toy`"), "its key was taken: {error}");
    let (code, error) = refusal(&espalier(&generate).env("ESPALIER_API_KEY", "two words").output().unwrap());
    assert!(
        code == 2 && error.contains("ESPALIER_API_KEY holds no API key") && !error.contains("two words"),
        "{error}"
    );
}
