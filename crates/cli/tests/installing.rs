//! What is installed beside the program: completions for shells, and pages for the manual.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn espalier(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_espalier")).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The commands below a command, by the words that lead to them, as `--help` lists them.
fn commands(above: &[String]) -> Vec<Vec<String>> {
    let args: Vec<&str> = above.iter().map(String::as_str).chain(["-h"]).collect();
    let help = String::from_utf8(espalier(&args).stdout).unwrap();
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| line.starts_with("  "));
    // Descriptions go on further to the right.
    let names = list.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let below: Vec<Vec<String>> =
        names.filter(|name| *name != "help").map(|name| [above, &[name.to_owned()]].concat()).collect();
    let deeper: Vec<Vec<String>> = below.iter().flat_map(|command| commands(command)).collect();
    [below, deeper].concat()
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    espalier(&["man", pages.to_str().unwrap()]);
    let all = commands(&[]);
    let names: Vec<String> = all.iter().map(|words| words.join(" ")).collect();
    for expected in ["serve", "doctor", "bench decode", "train edd", "plan calibrate"] {
        assert!(names.iter().any(|name| name == expected), "{names:?}");
    }
    for words in [vec![vec![]], all.clone()].concat() {
        let name = [vec!["espalier".to_owned()], words].concat().join("-");
        let page =
            fs::read_to_string(pages.join(format!("{name}.1"))).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{name}");
    }
    assert_eq!(fs::read_dir(&pages).unwrap().count(), all.len() + 1, "no page without a command");
}

#[test]
fn shells_take_the_scripts_that_complete() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = espalier(&["completions", shell]).stdout;
        let text = String::from_utf8(script.clone()).unwrap();
        assert!(["doctor", "calibrate", "policy"].iter().all(|word| text.contains(word)), "{shell}");
        if shell != "bash" {
            continue;
        }
        let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
        bash.stdin.take().unwrap().write_all(&script).unwrap();
        assert!(bash.wait().unwrap().success());
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let mut script = tempfile::NamedTempFile::new().unwrap();
    script.write_all(&espalier(&["completions", "bash"]).stdout).unwrap();
    let complete = |words: &str, word: &str| {
        let ask = format!(
            "source \"$0\"; COMP_WORDS=(espalier {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _espalier espalier '{word}' ''; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["-c", &ask]).arg(script.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("doc", "doc"), "doctor\n");
    assert!(complete("serve --verifier", "--verifier").contains("--verifier-port\n"));
}
