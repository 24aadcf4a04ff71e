//! A drafter, a verifier and a gateway as processes, in the clear or under TLS.

use std::path::Path;
use std::time::{Duration, SystemTime};

use espalier_certs::{Authority, write_authority, write_signed};
use espalier_client::Client;
use espalier_service_kit::{CallerTlsArgs, Role};
use espalier_tests::{Process, free, model, until_known};

/// The target: the smaller the model, the more TLS shows.
pub(crate) const TARGET: &str = "small";

/// Certificates of all services in a folder, which ends with it.
pub(crate) struct Certificates(std::path::PathBuf);

impl Certificates {
    pub(crate) fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("espalier-tls-cost-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
        let authority = Authority::new("tls cost", now - hour..now + hour).unwrap();
        write_authority(&folder, &authority).unwrap();
        for role in Role::ALL {
            write_signed(&folder, role.name(), &authority.sign(&[role.name(), "127.0.0.1"]).unwrap()).unwrap();
        }
        Self(folder)
    }

    fn at(&self, file: &str) -> String {
        self.0.join(file).to_string_lossy().into_owned()
    }

    fn args(&self, role: Role) -> [String; 6] {
        let [cert, key] = ["pem", "key"].map(|end| self.at(&format!("{}.{end}", role.name())));
        ["--tls-cert".to_owned(), cert, "--tls-key".to_owned(), key, "--tls-ca".to_owned(), self.at("ca.pem")]
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        // What is left is of no use to anybody after an hour.
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
            let locks = certificates.map(|certificates| certificates.args(role));
            let locks = locks.iter().flatten().map(String::as_str);
            Process::start(programs, name, listen, &args.iter().copied().chain(locks).collect::<Vec<_>>(), None)
        };
        let processes = [
            start("verifier", verifier, Role::Verifier, &["--model", &model, "--threads", "1"]),
            start("drafter", drafter, Role::Drafter, &["--model", &model, "--layers", "3", "--threads", "1"]),
            start("gateway", gateway, Role::Gateway, &["--verifier", &verifier_url, "--drafter", &drafter_url]),
        ];
        let tls_ca = certificates.map(|certificates| certificates.at("ca.pem").into());
        let dialer = CallerTlsArgs { tls_ca, ..CallerTlsArgs::default() }.dialer(&url).unwrap();
        let client = Client::over(&dialer, &url).unwrap();
        until_known(&client, 1).await;
        Self { client, _processes: processes }
    }
}
