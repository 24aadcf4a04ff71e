//! A drafter, a verifier and a gateway as processes, in the clear or under TLS.

use std::path::Path;

use espalier_client::Client;
use espalier_service_kit::{Role, TlsArgs};
use espalier_tests::{Certificates, Process, free, model, until_known};

/// The target: the smaller the model, the more TLS shows.
pub(crate) const TARGET: &str = "small";

/// What a service of some kind is told, as arguments.
fn locks(certificates: &Certificates, role: Role) -> Vec<String> {
    let TlsArgs { tls_cert, tls_key, tls_ca } = certificates.of(role);
    let named = [("--tls-cert", tls_cert), ("--tls-key", tls_key), ("--tls-ca", tls_ca)];
    let given =
        named.into_iter().filter_map(|(name, path)| Some([name.to_owned(), path?.to_string_lossy().into_owned()]));
    given.flatten().collect()
}

/// Three processes, which end with it, and a client of them.
pub(crate) struct System {
    pub(crate) client: Client,
    _processes: [Process; 3],
}

impl System {
    /// Starts all three and returns when they have found each other.
    pub(crate) async fn start(programs: &Path, certificates: Option<&Certificates>) -> Self {
        let [verifier, drafter, gateway] = [free(), free(), free()];
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let [verifier_url, drafter_url, url] =
            [verifier, drafter, gateway].map(|address| format!("{scheme}://{address}"));
        let model = model(TARGET).to_string_lossy().into_owned();
        let start = |name, listen, role, args: &[&str]| {
            let locks = certificates.map(|certificates| locks(certificates, role));
            let locks = locks.iter().flatten().map(String::as_str);
            Process::start(programs, name, listen, &args.iter().copied().chain(locks).collect::<Vec<_>>(), None)
        };
        let processes = [
            start("verifier", verifier, Role::Verifier, &["--model", &model, "--threads", "1"]),
            start("drafter", drafter, Role::Drafter, &["--model", &model, "--layers", "3", "--threads", "1"]),
            start("gateway", gateway, Role::Gateway, &["--verifier", &verifier_url, "--drafter", &drafter_url]),
        ];
        let known = certificates.map(|certificates| certificates.of_client(None)).unwrap_or_default();
        let dialer = known.dialer(&url).unwrap();
        let client = Client::over(&dialer, &url).unwrap();
        until_known(&client, 1).await;
        Self { client, _processes: processes }
    }
}
