//! A drafter, a verifier and a gateway as processes, with something or without it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use espalier_client::Client;
use espalier_service_kit::{Role, TlsArgs};
use espalier_tests::{Certificates, Process, free, model, until_known};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

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

/// What a system has that another has not.
pub(crate) enum Extra<'a> {
    /// Nothing.
    None,
    /// Every connection is under TLS.
    Locked(&'a Certificates),
    /// Metrics are scraped, and all is sent to a collector at this address.
    Watched(SocketAddr),
}

impl Extra<'_> {
    /// What a service of some kind is told, as arguments; `metrics` is where it may tell its own.
    fn args(&self, role: Role, metrics: SocketAddr) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::Locked(certificates) => locks(certificates, role),
            Self::Watched(collector) => {
                let sent = ["--otlp-endpoint".to_owned(), format!("http://{collector}")];
                sent.into_iter().chain(["--metrics-listen".to_owned(), metrics.to_string()]).collect()
            }
        }
    }

    fn certificates(&self) -> Option<&Certificates> {
        if let Self::Locked(certificates) = self { Some(certificates) } else { None }
    }
}

/// Three processes, which end with it, and a client of them.
pub(crate) struct System {
    pub(crate) client: Client,
    pub(crate) gateway: SocketAddr,
    _processes: [Process; 3],
}

impl System {
    /// Starts all three and returns when they have found each other.
    pub(crate) async fn start(programs: &Path, extra: &Extra<'_>) -> Self {
        let [verifier, drafter, gateway] = [free(), free(), free()];
        let metrics = [free(), free(), free()];
        let scheme = if extra.certificates().is_some() { "https" } else { "http" };
        let [verifier_url, drafter_url, url] =
            [verifier, drafter, gateway].map(|address| format!("{scheme}://{address}"));
        let model = model(TARGET).to_string_lossy().into_owned();
        let start = |role: Role, listen, metrics, args: &[&str]| {
            let extra = extra.args(role, metrics);
            let args = args.iter().copied().chain(extra.iter().map(String::as_str));
            Process::start(programs, role.name(), listen, &args.collect::<Vec<_>>(), None)
        };
        let processes = [
            start(Role::Verifier, verifier, metrics[0], &["--model", &model, "--threads", "1"]),
            start(Role::Drafter, drafter, metrics[1], &["--model", &model, "--layers", "3", "--threads", "1"]),
            start(Role::Gateway, gateway, metrics[2], &["--verifier", &verifier_url, "--drafter", &drafter_url]),
        ];
        let known = extra.certificates().map(|certificates| certificates.of_client(None)).unwrap_or_default();
        let dialer = known.dialer(&url).unwrap();
        let client = Client::over(&dialer, &url).unwrap();
        until_known(&client, 1).await;
        if matches!(extra, Extra::Watched(_)) {
            metrics.into_iter().for_each(|address| drop(tokio::spawn(scrape(address))));
        }
        Self { client, gateway, _processes: processes }
    }
}

/// Reads the metrics at an address for as long as there are any.
async fn scrape(address: SocketAddr) {
    let mut text = String::new();
    while let Ok(mut stream) = TcpStream::connect(address).await {
        stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).await.unwrap();
        text.clear();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        sleep(SCRAPE_INTERVAL).await;
    }
}

/// Fifteen times as often as scrapers usually ask.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);
