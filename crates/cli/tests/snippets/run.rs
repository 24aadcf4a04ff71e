//! Runs what can be run, changed as little as possible.

use crate::shell::Command;
use crate::stage::{Serving, Stage, espalier};

/// A subcommand that would take long, and what is added to it unless it is given.
struct Shorter {
    subcommand: &'static [&'static str],
    limits: &'static [[&'static str; 2]],
}

const SHORTER: [Shorter; 2] = [
    Shorter { subcommand: &["generate"], limits: &[["--max-tokens", "16"]] },
    Shorter { subcommand: &["bench", "decode"], limits: &[["--max-tokens", "16"], ["--limit", "1"]] },
];

/// Flags whose values are changed: whoever serves takes free ports.
const PORTS: [&str; 3] = ["--port", "--verifier-port", "--drafter-port"];

/// Who drafts is chosen when a system is started: commands with one of these start their own.
const OWN_SYSTEM: [&str; 2] = ["--drafter", "--predictor"];

/// Runs a command. False where it is none that is run here: of cargo's, some would take too long, and one would run
/// this test.
pub(crate) fn run(command: &Command, stage: &Stage) -> Result<bool, String> {
    if command.program() != "espalier" {
        return Ok(false);
    }
    let args: Vec<String> = command.args().iter().map(|arg| stage.with_address(arg)).collect();
    match args.first().map(String::as_str) {
        Some("serve") => serve(&args, stage)?,
        _ => finish(&shortened(&args), stage)?,
    }
    Ok(true)
}

/// Runs to the end. Where it makes no difference the system that runs already is asked: starting one takes the longest.
fn finish(args: &[String], stage: &Stage) -> Result<(), String> {
    let mut process = espalier(stage.folder());
    if !args.iter().any(|arg| OWN_SYSTEM.contains(&arg.as_str())) {
        process.env("ESPALIER_GATEWAY", stage.gateway());
    }
    let output = process.args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("espalier {args:?} ended with {}: {said}", output.status))
    }
}

/// Runs until it is ready, and has it end.
fn serve(args: &[String], stage: &Stage) -> Result<(), String> {
    let serving = Serving::start(espalier(stage.folder()).args(on_free_ports(args)))?;
    match serving.end() {
        Some(0) => Ok(()),
        code => Err(format!("espalier {args:?} ended with {code:?}")),
    }
}

fn shortened(args: &[String]) -> Vec<String> {
    let is_meant =
        |shorter: &&Shorter| args.get(..shorter.subcommand.len()).is_some_and(|begin| begin == shorter.subcommand);
    let limits = SHORTER.iter().filter(is_meant).flat_map(|shorter| shorter.limits);
    let missing = limits.filter(|[flag, _]| !args.iter().any(|arg| arg == flag));
    args.iter().cloned().chain(missing.flatten().map(|&word| word.to_owned())).collect()
}

fn on_free_ports(args: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if PORTS.contains(&arg.as_str()) {
            args.next();
        } else {
            kept.push(arg.clone());
        }
    }
    kept.extend(Serving::FREE_PORTS.map(str::to_owned));
    kept
}

#[test]
fn only_limits_and_ports_are_changed() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    assert_eq!(shortened(&words("generate --target x")), words("generate --target x --max-tokens 16"));
    assert_eq!(shortened(&words("generate --max-tokens 3")), words("generate --max-tokens 3"));
    assert_eq!(shortened(&words("bench decode --limit 5")), words("bench decode --limit 5 --max-tokens 16"));
    assert_eq!(shortened(&words("bench kernels")), words("bench kernels"));
    let ports = "--port 0 --verifier-port 0 --drafter-port 0";
    assert_eq!(on_free_ports(&words("serve --port 7 --targets x")), words(&format!("serve --targets x {ports}")));
}
