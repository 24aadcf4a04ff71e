//! `espalier doctor` as a person meets it: on a machine where all is well, and on one where it is not.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Options by which nothing listens on a port that a test beside this one may have.
const ANY_PORTS: [&str; 6] = ["--port", "0", "--verifier-port", "0", "--drafter-port", "0"];

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
}

fn espalier(models: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.args(args).env("ESPALIER_MODELS", models).stdin(Stdio::null());
    command.output().unwrap()
}

/// The exit code, and what a check found: its level and its words.
struct Told {
    code: i32,
    checks: Vec<Value>,
}

impl Told {
    fn of(models: &Path, args: &[&str]) -> Self {
        let output = espalier(models, &[&["doctor", "--json"], args].concat());
        let said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        Self { code: output.status.code().unwrap(), checks: said["checks"].as_array().unwrap().clone() }
    }

    fn check(&self, name: &str) -> (&str, &str) {
        let found = self.checks.iter().rfind(|check| check["check"] == name);
        let found = found.unwrap_or_else(|| panic!("{name}: {:?}", self.checks));
        (found["level"].as_str().unwrap(), found["says"].as_str().unwrap())
    }

    fn worst(&self) -> Vec<&Value> {
        self.checks.iter().filter(|check| check["level"] != "ok").collect()
    }
}

fn copy(model: &str, to: &Path) -> PathBuf {
    let folder = to.join(model);
    fs::create_dir(&folder).unwrap();
    for entry in models().join(model).read_dir().unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    folder
}

#[test]
fn a_clone_of_the_repository_is_well() {
    let told = Told::of(
        &models(),
        &[&ANY_PORTS[..], &["--drafter", "sorted,medium-edd", "--predictor", "medium-edd-cali-ts"]].concat(),
    );
    assert_eq!(told.code, 0, "{:?}", told.worst());
    for name in ["processor", "threads", "models", "target small", "target medium", "drafter sorted", "configuration"] {
        assert_eq!(told.check(name).0, "ok", "{name}");
    }
    assert!(
        told.check("target medium").1.contains("12 layers, 20.5 M parameters"),
        "{:?}",
        told.check("target medium")
    );
    assert!(told.check("drafter medium-edd").1.contains("edd for `medium` alone"));
    assert!(told.check("memory").1.contains("full contexts of 64"));

    let text = espalier(&models(), &[&["doctor", "--quick"], &ANY_PORTS[..]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("ok       processor") && !text.contains('\u{1b}'), "no colour where no terminal is: {text}");
    assert!(text.contains(" checks: 0 faults, "), "{text}");
}

#[test]
fn broken_and_strange_checkpoints_are_faults_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let small = copy("small", folder.path());
    let edd = copy("medium-edd", folder.path());
    let medium = copy("medium", folder.path());
    let asked = [&ANY_PORTS[..], &["--targets", "small,medium", "--drafter", "medium-edd"]].concat();
    let told = Told::of(folder.path(), &asked);
    assert_eq!(told.code, 0, "{:?}", told.worst());

    // Other weights of the same shape: what was made for them is of no use any more.
    let weights = medium.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, &bytes).unwrap();
    let told = Told::of(folder.path(), &asked);
    assert_eq!((told.code, told.check("drafter medium-edd").0), (1, "fault"));
    assert!(told.check("drafter medium-edd").1.contains("made for `medium`, and `medium` has other weights"));

    fs::OpenOptions::new().write(true).open(small.join("model.safetensors")).unwrap().set_len(99_999).unwrap();
    fs::remove_file(edd.join("tokenizer.json")).unwrap();
    let told = Told::of(folder.path(), &asked);
    assert!(told.check("target small").1.contains("is truncated"), "{:?}", told.check("target small"));
    assert!(told.check("drafter medium-edd").1.contains("tokenizer.json"), "{:?}", told.check("drafter medium-edd"));
    let faults = told.checks.iter().filter(|check| check["level"] == "fault");
    assert!(
        faults.clone().count() == 2 && faults.clone().all(|fault| fault["advice"].is_string()),
        "{:?}",
        told.worst()
    );
}

#[test]
fn without_models_it_says_where_it_looked() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.args(["doctor", "--json"]).args(ANY_PORTS).current_dir(home.path());
    command.env("XDG_DATA_HOME", home.path()).env_remove("ESPALIER_MODELS").stdin(Stdio::null());
    let told: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let models = told["checks"].as_array().unwrap().iter().find(|check| check["check"] == "models").unwrap();
    // Where this test is run from a clone, a folder of models is above the program.
    let says = models["says"].as_str().unwrap();
    assert!(says.contains("beside the program") || says.contains(home.path().to_str().unwrap()), "{says}");
}

#[test]
fn a_taken_port_is_told_with_who_has_it() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let number = port.to_string();
    let given = [&ANY_PORTS[2..], &["--port", &number, "--quick"]].concat();
    let told = Told::of(&models(), &given);
    let (level, says) = told.check(&format!("port {port}"));
    assert!(told.code == 1 && level == "fault" && says.contains("another program"), "{says}");
}

#[test]
fn a_port_of_ours_is_told_with_what_serves_there() {
    let ports = ["--port", "0", "--verifier-port", "0", "--drafter-port", "0"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.args(["serve", "--targets", "small", "--drafter", "small:2"]).args(ports);
    let mut serving = command.env("ESPALIER_MODELS", models()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(serving.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| line != "ready").collect();
    for (role, option, words) in [
        ("gateway", "--port", "an espalier gateway for small"),
        ("verifier", "--verifier-port", "the verifier of `small`"),
        ("drafter", "--drafter-port", "the drafter `small-2`"),
    ] {
        let port = said.iter().find(|line| line.starts_with(role)).unwrap().rsplit(':').next().unwrap();
        let mut given = ANY_PORTS.map(str::to_owned);
        let at = given.iter().position(|word| word == option).unwrap();
        given[at + 1] = port.to_owned();
        let given: Vec<&str> = given.iter().map(String::as_str).chain(["--quick", "--targets", "small"]).collect();
        let told = Told::of(&models(), &given);
        let (level, says) = told.check(&format!("port {port}"));
        assert!(told.code == 0 && level == "warning" && says.contains(words), "{role}: {says}");
    }
    serving.kill().unwrap();
    serving.wait().unwrap();
}

#[test]
fn certificates_and_keys_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let certs = folder.path().join("certs");
    let at = |name: &str| certs.join(name).to_str().unwrap().to_owned();
    assert!(espalier(&models(), &["certs", certs.to_str().unwrap()]).status.success());
    let keys = folder.path().join("keys.json");
    fs::write(&keys, r#"{"keys": "#).unwrap();
    let (cert, key, ca) = (at("gateway.pem"), at("gateway.key"), at("ca.pem"));
    let given = |key: &str, name: &str| {
        let tls = ["--tls-cert", &cert, "--tls-key", key, "--tls-ca", &ca, "--name", name];
        Told::of(&models(), &[&ANY_PORTS[..], &tls, &["--keys", keys.to_str().unwrap(), "--quick"]].concat())
    };
    let told = given(&key, "localhost");
    let (level, says) = told.check("certificate");
    assert!(level == "ok" && says.contains("gateway.espalier"), "{says}");
    assert_eq!((told.code, told.check("keys").0), (1, "fault"));
    assert!(given(&key, "elsewhere.example").check("certificate").1.ends_with("it is not for elsewhere.example"));
    assert!(given(&at("drafter.key"), "localhost").check("certificate").1.contains("cannot be used with the key"));
}
