//! Services as processes of their own.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use espalier_client::Client;
use espalier_local::ANY_PORT;
use tokio::time::{sleep, timeout};

/// Services that are not there after this time have failed.
const START_MAX: Duration = Duration::from_secs(120);

/// A program that runs; it ends with this.
pub struct Process(Mutex<Child>);

impl Process {
    /// Starts a service, `NAME` of `espalier-NAME` in a folder of programs, which listens at an address. What it says goes
    /// to a file, or is not kept.
    pub fn start(programs: &Path, name: &str, listen: SocketAddr, args: &[&str], log: Option<&File>) -> Self {
        let program = programs.join(format!("espalier-{name}"));
        let said = || log.map_or_else(Stdio::null, |log| log.try_clone().unwrap().into());
        let mut command = Command::new(&program);
        command.args(args).args(["--listen", &listen.to_string()]);
        let started = command.stdin(Stdio::null()).stdout(said()).stderr(said()).spawn();
        let child = started.unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()));
        Self(Mutex::new(child))
    }

    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().unwrap()
    }

    /// Memory that is resident, in bytes; 0 where the system does not tell.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child().id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        resident.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child();
        // It may have ended.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The folder of the programs: the one that was given, or that of this program.
pub fn programs(given: Option<PathBuf>) -> PathBuf {
    given.unwrap_or_else(|| std::env::current_exe().unwrap().parent().unwrap().to_owned())
}

/// An address of this machine where nobody listens.
pub fn free() -> SocketAddr {
    TcpListener::bind(ANY_PORT).unwrap().local_addr().unwrap()
}

/// Waits until a gateway knows a target, and so many drafters for it.
pub async fn until_known(client: &Client, drafters: usize) {
    let asking = async {
        loop {
            let targets = client.clone().targets().await.unwrap_or_default();
            if targets.iter().any(|target| target.drafters.len() >= drafters) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(START_MAX, asking).await.expect("the services do not come up");
}
