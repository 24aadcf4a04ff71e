//! The program: what it says to who starts it wrongly, and to supervisors.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_espalier-drafter")).args(args).output().unwrap()
}

#[test]
fn a_model_that_is_not_there_is_named_in_one_sentence() {
    let Output { status, stderr, .. } = run(&["--model", "/nowhere", "--listen", "127.0.0.1:0"]);
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.starts_with("espalier-drafter: ") && stderr.contains("/nowhere"), "{stderr}");
}

#[test]
fn a_probe_of_nobody_fails_and_says_why() {
    // Port 1 is nobody's.
    let Output { status, stdout, .. } = run(&["probe", "live", "--metrics-listen", "127.0.0.1:1"]);
    let stdout = String::from_utf8(stdout).unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(stdout.contains("refused"), "{stdout}");
}

#[test]
fn a_port_for_scrapers_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let Output { status, stderr, .. } = run(&["--model", "/nowhere", "--metrics-listen", &address]);
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(stderr.contains(&format!("the address {address} is already in use")), "{stderr}");
}
