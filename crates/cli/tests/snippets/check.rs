//! Whether a command is one that exists, without running it.

use std::process::{Command as Process, Stdio};

use clap::Parser;

use crate::markdown::root;
use crate::protos;
use crate::shell::Command;

/// What is wrong with a command.
pub(crate) fn check(command: &Command) -> Result<(), String> {
    if let Some(args) = command.espalier() {
        if command.program() == "cargo" {
            cargo(command)?;
        }
        return espalier(&args);
    }
    match command.program() {
        "espalier-verifier" => parsed::<espalier_verifier::Args>(command),
        "espalier-drafter" => parsed::<espalier_drafter::Args>(command),
        "espalier-gateway" => parsed::<espalier_gateway::Args>(command),
        "cargo" => cargo(command),
        "just" => just(command),
        "grpcurl" => protos::grpcurl(command),
        // What clusters and containers are told is tried by `just cluster-test`; here, that the files exist.
        "curl" | "docker" | "helm" | "kubectl" | "pip" | "promtool" => paths(command),
        script if ["deploy/", "docs/"].iter().any(|top| script.starts_with(top)) => paths(command),
        other => Err(format!("nobody knows how to check `{other}`")),
    }
}

/// Whether each word that looks like a path of this repository is one.
fn paths(command: &Command) -> Result<(), String> {
    const FOLDERS: [&str; 4] = ["clients/", "deploy/", "docs/", "models/"];
    let words = command.words.iter().filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)));
    let gone: Vec<&String> = words.filter(|path| !root().join(path).exists()).collect();
    if gone.is_empty() { Ok(()) } else { Err(format!("there is no {gone:?}")) }
}

/// Has the program read its arguments; `--help` at the end keeps it from doing what they say, and from asking for those
/// that are required.
fn espalier(args: &[String]) -> Result<(), String> {
    let mut process = Process::new(env!("CARGO_BIN_EXE_espalier"));
    process.args(args).arg("--help").stdin(Stdio::null());
    let output = process.output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Has a service's own parser read the arguments.
fn parsed<A: Parser>(command: &Command) -> Result<(), String> {
    A::try_parse_from(&command.words).map(drop).map_err(|error| error.to_string())
}

/// Whether the subcommand is cargo's, and the packages and paths are of this workspace.
fn cargo(command: &Command) -> Result<(), String> {
    const KNOWN: [&str; 6] = ["bench", "build", "doc", "install", "run", "test"];
    let subcommand = command.args().first().map_or("", String::as_str);
    if !KNOWN.contains(&subcommand) {
        return Err(format!("`cargo {subcommand}` is none of {KNOWN:?}"));
    }
    for package in command.values("-p") {
        let named = format!("name = \"{package}\"");
        let found = manifests().iter().any(|manifest| manifest.lines().any(|line| line == named));
        found.then_some(()).ok_or_else(|| format!("the workspace has no package `{package}`"))?;
    }
    for path in command.values("--path") {
        let manifest = root().join(path).join("Cargo.toml");
        manifest.is_file().then_some(()).ok_or_else(|| format!("there is no package at {path}"))?;
    }
    Ok(())
}

/// The manifests of the workspace's members.
fn manifests() -> Vec<String> {
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = workspace.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    let folders = members.split('"').skip(1).step_by(2);
    folders.map(|folder| std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap()).collect()
}

/// Whether there is such a recipe.
fn just(command: &Command) -> Result<(), String> {
    let recipe = command.args().first().map_or("", String::as_str);
    let justfile = std::fs::read_to_string(root().join("justfile")).unwrap();
    let heads = justfile.lines().filter(|line| line.starts_with(char::is_alphabetic) && line.contains(':'));
    let mut names = heads.filter_map(|line| line.split([' ', ':']).next());
    if names.any(|name| name == recipe) { Ok(()) } else { Err(format!("there is no recipe `{recipe}`")) }
}

#[test]
fn what_does_not_exist_is_found_out() {
    let fault = |line: &str| check(&crate::shell::commands(line).unwrap()[0]).err();
    for good in [
        "cargo test --workspace",
        "just soak",
        "espalier bench decode --prompts x --limit 3",
        "espalier",
        "helm lint deploy",
    ] {
        assert_eq!(fault(good), None, "{good}");
    }
    let wrong = [
        ("espalier generate --target small --polcy x", "--polcy"),
        ("espalier genrate", "genrate"),
        ("espalier bench decode --limit 0 --prompts x", "0"),
        ("espalier-verifier --model m --sequences 4", "--sequences"),
        ("cargo bench -p espalier-new", "espalier-new"),
        ("just sook", "sook"),
        ("make", "make"),
        ("helm install espalier deploy/chart", "deploy/chart"),
    ];
    for (line, word) in wrong {
        assert!(fault(line).is_some_and(|fault| fault.contains(word)), "{line}");
    }
}
