//! What the end-to-end tests share: the shipped models as a running system, prompts, an oracle, and a way to cut
//! connections.
//!
//! Nothing is mocked: services are the ones that are shipped, on loopback ports, with the shipped models.

// Tests may fail loudly.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod certificates;
mod collector;
mod faults;
pub mod hostile;
mod oracle;
mod processes;
mod questions;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use espalier_client::{Answer, Client};
use espalier_drafter::Config as DrafterConfig;
use espalier_local::{ANY_PORT, Address, GatewayConfig, Plan, Profiles, Renderer, Role, System};
use espalier_model::{Arithmetic, DeviceKind, Parallel};
use espalier_proto::{GenerationRequest, Prompt};
use espalier_speculation::{Sampling, StopStrings, Token};
use espalier_verifier::Config as VerifierConfig;

pub use certificates::Certificates;
pub use collector::{Collector, SpanOf};
pub use faults::Proxy;
pub use oracle::Oracle;
pub use processes::{Process, free, programs, until_known};
pub use questions::{Extent, Question, Said, Watch, persist, questions};

/// A shipped model's folder.
pub fn model(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models").join(name)
}

/// Verifiers for `targets` and the first `layers` layers of `small` as a drafter, each with so many threads.
pub fn plan(targets: &[&str], layers: Option<usize>, threads: usize) -> Plan {
    let verifier = |name: &&str| (VerifierConfig::new(model(name), threads).unwrap(), ANY_PORT);
    let threads_of_drafter = NonZeroUsize::new(threads).unwrap();
    let drafter = DrafterConfig::new(model("small"), layers, threads_of_drafter);
    let drafter = DrafterConfig { name: "drafter".to_owned(), ..drafter };
    let verifiers = targets.iter().map(verifier).collect();
    Plan {
        verifiers,
        drafters: vec![drafter],
        gateway: ANY_PORT,
        profiles: Profiles::default(),
        requests_max: GatewayConfig::REQUESTS_MAX,
        queued_max: GatewayConfig::QUEUED_MAX,
        playground: true,
        renderer: Renderer::in_process(),
        monitor: None,
    }
}

/// The same with targets that compute in an arithmetic.
pub fn plan_in(arithmetic: Arithmetic, plan: Plan) -> Plan {
    let verifiers =
        plan.verifiers.into_iter().map(|(config, address)| (config.with_compute(arithmetic.into()), address));
    Plan { verifiers: verifiers.collect(), ..plan }
}

/// The same with all models on a device, targets spread over several.
pub fn plan_on(device: DeviceKind, parallel: Parallel, plan: Plan) -> Plan {
    let verifiers = plan.verifiers.into_iter().map(|(config, address)| (config.with_device(device, parallel), address));
    let drafters = plan.drafters.into_iter().map(|config| DrafterConfig { device, ..config });
    Plan { verifiers: verifiers.collect(), drafters: drafters.collect(), ..plan }
}

/// A running system of [`plan`].
pub async fn start(targets: &[&str], layers: Option<usize>, threads: usize) -> System {
    System::start(plan(targets, layers, threads), |_: &str, _, _| {}).await.unwrap()
}

/// A client of a system's gateway.
pub fn client(system: &System) -> Client {
    Client::new(system.gateway()).unwrap()
}

/// Where a service of a system listens.
pub fn address(system: &System, role: Role) -> SocketAddr {
    socket(system.addresses().iter().find(|address| address.role == role).unwrap())
}

/// Where a service listens.
pub fn socket(service: &Address) -> SocketAddr {
    service.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Prompts of GSM8K's test set in chat form, with the greedy continuation that Hugging Face transformers computes for
/// `target`.
pub fn prompts(target: &str) -> Vec<(Vec<Token>, Vec<Token>)> {
    let text = std::fs::read_to_string(model(target).join("greedy.jsonl")).unwrap();
    let ids = |case: &serde_json::Value, key: &str| -> Vec<Token> {
        case[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as Token).collect()
    };
    let cases = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    cases.map(|case| (ids(&case, "prompt_ids"), ids(&case, "greedy_ids"))).collect()
}

/// Greedy, or coupled at a temperature with a seed.
pub fn sampling(temperature: f64, seed: u64) -> Sampling {
    Sampling::new(temperature, 0, 1.0, seed).unwrap()
}

/// A request with everything as usual.
pub fn request(target: &str, prompt: &[Token], max_tokens: usize, sampling: Sampling) -> GenerationRequest {
    GenerationRequest {
        target: target.to_owned(),
        prompt: Prompt::Tokens(prompt.to_vec()),
        max_tokens,
        sampling,
        seeded: true,
        stop_tokens: Vec::new(),
        stop_strings: StopStrings::default(),
        logprobs: None,
        policy: None,
        drafter: None,
        speculate: true,
        generated: Vec::new(),
        cut_to_context: false,
        rounds: false,
        constraint: None,
    }
}

/// The answer to a request.
pub async fn answer(client: &Client, request: GenerationRequest) -> Answer {
    client.clone().generate(request, |_| {}).await.unwrap()
}
