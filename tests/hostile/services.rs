//! A verifier, a drafter and a gateway as processes.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use espalier_client::Client;
use espalier_local::ANY_PORT;
use espalier_proto::{ServiceState, SystemStatus};
use espalier_service_kit::{channel, is_serving, outgoing};
use espalier_tests::hostile::{Addresses, Host};
use espalier_tests::model;
use tokio::time::sleep;

/// The target.
pub(crate) const TARGET: &str = "small";

/// Memory for keys and values of target and drafter: so little that all of it was used before growth is looked for.
const KV_MEMORY: [&str; 2] = ["256MiB", "128MiB"];

/// How long what is left of calls may take to be gone.
const GONE_MAX: Duration = Duration::from_secs(10);

/// All processes; they end with it.
pub(crate) struct Services {
    pub(crate) addresses: Addresses,
    /// An address where nobody listens.
    pub(crate) nowhere: String,
    processes: Vec<Process>,
}

struct Process {
    host: Host,
    child: Mutex<Child>,
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It may have ended.
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Services {
    /// Starts all, and returns when they answer.
    pub(crate) async fn start(programs: &Path, logs: &Path) -> Self {
        let [gateway, drafter, verifier] = [free(), free(), free()];
        let [gateway_url, drafter_url, verifier_url] =
            [gateway, drafter, verifier].map(|address| format!("http://{address}"));
        let model = model(TARGET).to_string_lossy().into_owned();
        let [verifying, drafting] = KV_MEMORY.map(|kv| ["--model", &*model, "--threads", "1", "--kv-memory", kv]);
        let start = Start { programs, logs };
        let verifying = start.spawn(Host::Verifier, verifier, &verifying);
        // A message may name any host to send trees to.
        let drafting = [&drafting[..], &["--layers", "2", "--allow-verifiers", "127.0.0.1"]].concat();
        let drafting = start.spawn(Host::Drafter, drafter, &drafting);
        until_serving(&verifier_url).await;
        until_serving(&drafter_url).await;
        let known = ["--verifier", &*verifier_url, "--drafter", &*drafter_url];
        let serving = start.spawn(Host::Gateway, gateway, &known);
        until_serving(&gateway_url).await;
        let addresses = Addresses { gateway: gateway_url, drafter: drafter_url, verifier: verifier_url };
        Self { addresses, nowhere: "http://127.0.0.1:1".to_owned(), processes: vec![serving, drafting, verifying] }
    }

    /// Resident memory of each process, in bytes.
    pub(crate) fn resident(&self) -> Vec<(Host, u64)> {
        self.processes.iter().map(|process| (process.host, process.resident())).collect()
    }

    /// What is wrong with the processes: one has ended or panicked, or something is left of calls.
    pub(crate) async fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.processes.iter().filter_map(Process::fault).collect();
        if faults.is_empty() {
            faults.extend(left(&self.addresses.gateway).await);
        }
        faults
    }
}

impl Process {
    fn resident(&self) -> u64 {
        let id = self.child.lock().unwrap_or_else(PoisonError::into_inner).id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        resident.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
    }

    fn fault(&self) -> Option<String> {
        let name = self.host.name();
        let ended = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().unwrap();
        if let Some(status) = ended {
            return Some(format!("the {name} ended: {status}"));
        }
        let said = std::fs::read_to_string(&self.log).unwrap();
        let panic = said.lines().find(|line| line.contains("panicked"));
        panic.map(|line| format!("the {name} panicked: {line}"))
    }
}

/// How processes are started.
struct Start<'a> {
    programs: &'a Path,
    logs: &'a Path,
}

impl Start<'_> {
    fn spawn(&self, host: Host, listen: SocketAddr, args: &[&str]) -> Process {
        let program = self.programs.join(format!("espalier-{}", host.name()));
        let log = self.logs.join(format!("{}.log", host.name()));
        let (out, listen) = (File::create(&log).unwrap(), listen.to_string());
        let mut command = Command::new(&program);
        command.args(args).args(["--listen", &listen]);
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let started = command.spawn();
        let child = started.unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()));
        Process { host, child: Mutex::new(child), log }
    }
}

/// What is left of calls after a while: places that are taken, memory that is held.
async fn left(gateway: &str) -> Option<String> {
    let mut found = None;
    for _ in 0..GONE_MAX.as_millis() / 100 {
        let status = Client::new(gateway).unwrap().status().await.unwrap();
        found = held(&status);
        if found.is_none() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    found
}

fn held(status: &SystemStatus) -> Option<String> {
    let requests = status.gateway.requests.open + status.gateway.requests_queued;
    let verifier = status.verifiers.iter().find_map(|ServiceState { status, .. }| status.as_ref())?;
    let drafter = status.drafters.iter().find_map(|ServiceState { status, .. }| status.as_ref())?;
    let sequences = verifier.sequences.open + drafter.sequences.open;
    let blocks = verifier.kv.held + drafter.kv.held + verifier.kv.promised + drafter.kv.promised;
    let is_free = requests == 0 && sequences == 0 && blocks == 0;
    let what =
        || format!("{requests} requests, {sequences} sequences and {blocks} blocks are left of calls that are over");
    (!is_free).then(what)
}

async fn until_serving(url: &str) {
    while !is_serving(channel(url).unwrap(), outgoing(None)).await.unwrap_or(false) {
        sleep(Duration::from_millis(50)).await;
    }
}

fn free() -> SocketAddr {
    TcpListener::bind(ANY_PORT).unwrap().local_addr().unwrap()
}
