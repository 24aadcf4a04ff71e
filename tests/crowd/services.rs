//! A verifier and a gateway as processes.

use std::path::Path;

use espalier_client::Client;
use espalier_tests::{Process, free, model, until_known};

/// The target.
pub(crate) const TARGET: &str = "small";

/// As an operator sets it who has clients that do not trust each other: half of a verifier's places.
const CLIENT_REQUESTS_MAX: &str = "32";

/// Both processes; they end with it.
pub(crate) struct Services {
    pub(crate) url: String,
    gateway: Process,
    _verifier: Process,
}

impl Services {
    /// Starts both and returns when they answer.
    pub(crate) async fn start(programs: &Path) -> Self {
        let [verifier, gateway] = [free(), free()];
        let [verifier_url, url] = [verifier, gateway].map(|address| format!("http://{address}"));
        let model = model(TARGET).to_string_lossy().into_owned();
        let verifier = Process::start(programs, "verifier", verifier, &["--model", &model, "--threads", "1"], None);
        let known = ["--verifier", &verifier_url, "--client-requests-max", CLIENT_REQUESTS_MAX];
        let gateway = Process::start(programs, "gateway", gateway, &known, None);
        until_known(&Client::new(&url).unwrap(), 0).await;
        Self { url, gateway, _verifier: verifier }
    }

    /// Memory of the gateway that is resident.
    pub(crate) fn gateway_bytes(&self) -> u64 {
        self.gateway.resident()
    }
}
