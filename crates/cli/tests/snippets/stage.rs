//! Where snippets are run: a folder that looks like the repository and may be written to, and a running system.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::markdown::root;

/// The address that the pages know the gateway by.
const WRITTEN: &str = "127.0.0.1:50051";

/// What snippets see of the repository.
const SEEN: [&str; 4] = ["crates", "deploy", "models", "proto"];

pub(crate) struct Stage {
    folder: TempDir,
    system: Serving,
}

impl Stage {
    /// Starts a system with the targets that come with the repository.
    pub(crate) fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        SEEN.iter().for_each(|name| symlink(root().join(name), folder.path().join(name)).unwrap());
        let system = Serving::start(espalier(folder.path()).arg("serve").args(Serving::FREE_PORTS)).unwrap();
        Self { folder, system }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The address of the gateway that runs.
    pub(crate) fn gateway(&self) -> &str {
        &self.system.gateway
    }

    /// A text with the address of the gateway that really runs.
    pub(crate) fn with_address(&self, text: &str) -> String {
        text.replace(WRITTEN, self.system.gateway.trim_start_matches("http://"))
    }

    pub(crate) fn strike(self) {
        assert_eq!(self.system.end(), Some(0), "the exit code of `espalier serve`");
    }
}

/// The program, with no settings but those of the snippet.
pub(crate) fn espalier(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.current_dir(folder).stdin(Stdio::null());
    for name in ["GATEWAY", "MODELS", "PREDICTORS", "PROFILES", "THREADS"] {
        command.env_remove(format!("ESPALIER_{name}"));
    }
    command
}

/// A serving process, which does not outlive the test.
pub(crate) struct Serving {
    process: Child,
    gateway: String,
}

impl Serving {
    pub(crate) const FREE_PORTS: [&str; 6] = ["--port", "0", "--verifier-port", "0", "--drafter-port", "0"];

    /// Waits until it is ready.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said: Vec<String> = lines.take_while(|line| line != "ready").collect();
        let gateway = said.iter().find_map(|line| line.strip_prefix("gateway")?.split_whitespace().last());
        let gateway = gateway.map(str::to_owned);
        let serving = Self { process, gateway: gateway.unwrap_or_default() };
        if serving.gateway.is_empty() { Err(format!("it said {said:?}")) } else { Ok(serving) }
    }

    /// Asks it to end, and says with which code it did.
    pub(crate) fn end(mut self) -> Option<i32> {
        assert!(Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status().unwrap().success());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
