//! A verifier, a drafter and a gateway as processes.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use espalier_client::Client;
use espalier_proto::{ServiceState, SystemStatus};
use espalier_service_kit::Role;
use espalier_tests::hostile::Addresses;
use espalier_tests::{Process, free, model, until_known};
use tokio::time::sleep;

/// The target.
pub(crate) const TARGET: &str = "small";

/// Memory for keys and values of target and drafter: so little that all of it was used before growth is looked for, or that
/// what is not used yet is no growth.
const KV_MEMORY: [&str; 2] = ["256MiB", "32MiB"];

/// How long what is left of calls may take to be gone.
const GONE_MAX: Duration = Duration::from_secs(10);

/// All processes; they end with it.
pub(crate) struct Services {
    pub(crate) addresses: Addresses,
    /// An address where nobody listens.
    pub(crate) nowhere: String,
    services: Vec<Service>,
}

struct Service {
    role: Role,
    process: Process,
    log: PathBuf,
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
        let verifying = start.spawn(Role::Verifier, verifier, &verifying);
        // A message may name any role to send trees to.
        let drafting = [&drafting[..], &["--layers", "2", "--allow-verifiers", "127.0.0.1"]].concat();
        let drafting = start.spawn(Role::Drafter, drafter, &drafting);
        let known = ["--verifier", &*verifier_url, "--drafter", &*drafter_url];
        let serving = start.spawn(Role::Gateway, gateway, &known);
        until_known(&Client::new(&gateway_url).unwrap(), 1).await;
        let addresses = Addresses { gateway: gateway_url, drafter: drafter_url, verifier: verifier_url };
        Self { addresses, nowhere: "http://127.0.0.1:1".to_owned(), services: vec![serving, drafting, verifying] }
    }

    /// Resident memory of each process, in bytes.
    pub(crate) fn resident(&self) -> Vec<(Role, u64)> {
        self.services.iter().map(|service| (service.role, service.process.resident())).collect()
    }

    /// What is wrong with the processes: one has ended or panicked, or something is left of calls.
    pub(crate) async fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.services.iter().filter_map(Service::fault).collect();
        if faults.is_empty() {
            faults.extend(left(&self.addresses.gateway).await);
        }
        faults
    }
}

impl Service {
    fn fault(&self) -> Option<String> {
        let name = self.role.name();
        if let Some(status) = self.process.ended() {
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
    fn spawn(&self, role: Role, listen: SocketAddr, args: &[&str]) -> Service {
        let log = self.logs.join(format!("{}.log", role.name()));
        let process = Process::start(self.programs, role.name(), listen, args, Some(&File::create(&log).unwrap()));
        Service { role, process, log }
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
