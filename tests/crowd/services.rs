//! A verifier and a gateway as processes.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use espalier_local::ANY_PORT;
use espalier_service_kit::{channel, is_serving, outgoing};
use espalier_tests::model;
use tokio::time::sleep;

/// The target.
pub(crate) const TARGET: &str = "small";

/// As an operator sets it who has clients that do not trust each other: half of a verifier's places.
const CLIENT_REQUESTS_MAX: &str = "32";

/// Both processes; they end with it.
pub(crate) struct Services {
    pub(crate) url: String,
    processes: [Process; 2],
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Services {
    /// Starts both and returns when they answer.
    pub(crate) async fn start(programs: &Path) -> Self {
        let [verifier, gateway] = [free(), free()];
        let [verifier_url, url] = [verifier, gateway].map(|address| format!("http://{address}"));
        let model = model(TARGET).to_string_lossy().into_owned();
        let verifying = spawn(programs, "espalier-verifier", verifier, &["--model", &model, "--threads", "1"]);
        let known = ["--verifier", &verifier_url, "--client-requests-max", CLIENT_REQUESTS_MAX];
        until_serving(&verifier_url).await;
        let serving = spawn(programs, "espalier-gateway", gateway, &known);
        until_serving(&url).await;
        Self { url, processes: [serving, verifying] }
    }

    /// Memory of the gateway that is resident.
    pub(crate) fn gateway_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.processes[0].0.id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        resident.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
    }
}

fn spawn(programs: &Path, program: &str, listen: SocketAddr, args: &[&str]) -> Process {
    let mut command = Command::new(programs.join(program));
    command.args(args).args(["--listen", &listen.to_string()]);
    Process(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

async fn until_serving(url: &str) {
    while !is_serving(channel(url).unwrap(), outgoing(None)).await.unwrap_or(false) {
        sleep(Duration::from_millis(50)).await;
    }
}

fn free() -> SocketAddr {
    TcpListener::bind(ANY_PORT).unwrap().local_addr().unwrap()
}
