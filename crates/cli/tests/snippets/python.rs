//! The client in Python, where Python is at hand.

use std::process::{Command, Output};

use crate::markdown::Block;
use crate::stage::Stage;
use crate::{blocks, commands};

/// Runs the scripts against the running system; says what was done.
pub(crate) fn run(scripts: &[&Block], stage: &Stage) -> String {
    if !python(stage, &["-c", "import grpc_tools, grpc, openai"]).is_some_and(|output| output.status.success()) {
        return format!(
            "{} Python scripts were not run, as python3 with grpcio-tools and openai is not at hand",
            scripts.len()
        );
    }
    compile(stage);
    for script in scripts {
        let output = python(stage, &["-c", &stage.with_address(&script.text)]).unwrap();
        let [said, faults] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(output.status.success() && !said.is_empty(), "{script}: {faults}");
    }
    format!("{} Python scripts ran", scripts.len())
}

/// Has the pages' own commands make the modules that the scripts import.
fn compile(stage: &Stage) {
    let all: Vec<_> = blocks("sh").iter().filter(|block| block.runs).flat_map(commands).collect();
    for command in all.iter().filter(|command| command.program() == "python") {
        let args: Vec<&str> = command.args().iter().map(String::as_str).collect();
        let output = python(stage, &args).unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn python(stage: &Stage, args: &[&str]) -> Option<Output> {
    Command::new("python3").args(args).current_dir(stage.folder()).output().ok()
}
