//! Services as processes of their own.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use espalier_client::Client;
use espalier_local::ANY_PORT;
use tokio::time::{sleep, timeout};

/// Services that are not there after this time have failed.
const START_MAX: Duration = Duration::from_secs(120);

/// A program that runs; it ends with this.
pub struct Process(Child);

impl Process {
    /// Starts a service, `NAME` of `espalier-NAME` in a folder of programs, which listens at an address.
    pub fn start(programs: &Path, name: &str, listen: SocketAddr, args: &[&str]) -> Self {
        let mut command = Command::new(programs.join(format!("espalier-{name}")));
        command.args(args).args(["--listen", &listen.to_string()]);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Memory that is resident, in bytes; 0 where the system does not tell.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        resident.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
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
