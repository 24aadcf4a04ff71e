#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, SystemTime};

use espalier_certs::{Authority, write_authority, write_signed};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::FILE_DESCRIPTOR_SET;

use super::*;
use crate::chain::chain;
use crate::connect::Dialer;
use crate::health::is_serving;
use crate::propagation::outgoing;
use crate::serve::bind;
use crate::testing::Nothing;

const HOUR: Duration = Duration::from_secs(3600);

fn now_for_an_hour() -> Range<SystemTime> {
    let now = SystemTime::now();
    now - HOUR..now + HOUR
}

/// A folder with an authority, and what it has signed.
struct Set {
    folder: TempDir,
    authority: Authority,
}

impl Set {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Who looks for an issuer does so by its name.
        let authority = Authority::new(&folder.path().display().to_string(), now_for_an_hour()).unwrap();
        let set = Self { folder, authority };
        write_authority(set.path(), &set.authority).unwrap();
        for role in Role::ALL {
            set.sign(role.name(), &[role.certificate_name()]);
        }
        set
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn sign(&self, file: &str, names: &[&str]) {
        write_signed(self.path(), file, &self.authority.sign(names).unwrap()).unwrap();
    }

    fn files(&self, name: &str) -> TlsFiles {
        let file = |end: &str| self.path().join(format!("{name}.{end}"));
        let identity = Some(IdentityFiles { cert: file("pem"), key: file("key") });
        TlsFiles { identity, authorities: Some(self.path().join("ca.pem")) }
    }

    fn files_of(&self, role: Role) -> TlsFiles {
        self.files(role.name())
    }

    /// A client that shows some certificate and takes any name of this authority for the right one.
    fn client(&self, name: &str, server: Role) -> Dialer {
        Dialer::new(Some(ClientTls::load(self.files(name)).unwrap())).to(server)
    }
}

/// A server, for as long as the test runs.
async fn serve(tls: ServerTls) -> String {
    let bound = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap().with_tls(Some(tls));
    let url = bound.url();
    assert!(url.starts_with("https://"));
    tokio::spawn(bound.serve(Nothing, FILE_DESCRIPTOR_SET, std::future::pending()));
    url
}

fn verifier(set: &Set) -> ServerTls {
    ServerTls::of_service(set.files_of(Role::Verifier), Role::Verifier, &[Role::Gateway, Role::Drafter]).unwrap()
}

async fn ask(channel: Channel) -> Result<bool, Status> {
    is_serving(channel, outgoing(None)).await
}

fn words(status: &Status) -> String {
    chain(status)
}

#[tokio::test]
async fn those_who_may_are_answered_and_others_are_told_that_they_may_not() {
    let set = Set::new();
    let url = serve(verifier(&set)).await;
    for caller in [Role::Gateway, Role::Drafter] {
        assert!(ask(set.client(caller.name(), Role::Verifier).channel(&url).unwrap()).await.unwrap(), "{caller:?}");
    }
    let refusal = ask(set.client(Role::Verifier.name(), Role::Verifier).channel(&url).unwrap()).await.unwrap_err();
    assert_eq!(refusal.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_certificate_that_is_missing_foreign_or_of_another_time_does_not_come_in() {
    let (set, foreign) = (Set::new(), Set::new());
    let url = serve(verifier(&set)).await;
    let now = SystemTime::now();
    let none = TlsFiles { identity: None, ..set.files("gateway") };
    let others = TlsFiles { authorities: set.files("x").authorities, ..foreign.files("gateway") };
    for (files, told) in [(none, "CertificateRequired"), (others, "UnknownCA")] {
        let client = Dialer::new(Some(ClientTls::load(files).unwrap())).to(Role::Verifier);
        let refusal = ask(client.channel(&url).unwrap()).await.unwrap_err();
        assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
        assert!(words(&refusal).contains(told), "{}", words(&refusal));
    }
    let old = set.authority.sign_for(&["gateway.espalier"], &(now - 2 * HOUR..now - HOUR)).unwrap();
    write_signed(set.path(), "old", &old).unwrap();
    let refusal = ClientTls::load(set.files("old")).unwrap_err().to_string();
    assert!(refusal.contains("old.pem is valid from 2") && refusal.contains("and now it is 2"), "{refusal}");
}

#[tokio::test]
async fn a_certificate_that_ends_while_it_is_used_opens_no_further_connection() {
    let set = Set::new();
    let url = serve(verifier(&set)).await;
    let now = SystemTime::now();
    let short = set.authority.sign_for(&["gateway.espalier"], &(now - HOUR..now + Duration::from_secs(2))).unwrap();
    write_signed(set.path(), "short", &short).unwrap();
    let client = set.client("short", Role::Verifier);
    assert!(ask(client.channel(&url).unwrap()).await.unwrap());
    let begun = Instant::now();
    let refusal = loop {
        match ask(client.channel(&url).unwrap()).await {
            Ok(_) => assert!(begun.elapsed() < 10 * Duration::from_secs(1), "it never ended"),
            Err(refusal) => break refusal,
        }
        tokio::task::yield_now().await;
    };
    assert!(words(&refusal).contains("CertificateExpired"), "{}", words(&refusal));
}

#[tokio::test]
async fn a_server_of_another_kind_or_authority_is_not_spoken_to() {
    let (set, foreign) = (Set::new(), Set::new());
    let url = serve(verifier(&set)).await;
    let takes_it_for_a_drafter = set.client("gateway", Role::Drafter);
    let trusts_others = foreign.client("gateway", Role::Verifier);
    for (client, told) in [(takes_it_for_a_drafter, "not valid for name"), (trusts_others, "UnknownIssuer")] {
        let refusal = ask(client.channel(&url).unwrap()).await.unwrap_err();
        assert_eq!(refusal.code(), Code::Unavailable);
        assert!(words(&refusal).contains(told), "{}", words(&refusal));
    }
}

#[tokio::test]
async fn who_speaks_in_the_clear_is_not_understood_and_tls_needs_certificates() {
    let set = Set::new();
    let url = serve(verifier(&set)).await;
    let clear = url.replace("https", "http");
    assert!(ask(Dialer::default().channel(&clear).unwrap()).await.is_err());
    let refusal = Dialer::default().channel(&url).unwrap_err().to_string();
    assert_eq!(refusal, format!("`{url}` needs TLS, but no certificates were given"));
    let refusal = set.client("gateway", Role::Verifier).channel(&clear).unwrap_err().to_string();
    let told = format!("`{clear}` would be spoken to in the clear, although certificates were given: write https://");
    assert_eq!(refusal, told);
}

#[tokio::test]
async fn at_the_door_the_name_is_that_of_the_address() {
    let set = Set::new();
    set.sign("door", &["localhost", "127.0.0.1"]);
    set.sign("elsewhere", &["example.org"]);
    let trusting = TlsFiles { identity: None, ..set.files("door") };
    for (file, told) in [("door", None), ("elsewhere", Some("not valid for name"))] {
        let url = serve(ServerTls::load(TlsFiles { authorities: None, ..set.files(file) }).unwrap()).await;
        let client = ClientTls::load(trusting.clone()).unwrap();
        match (ask(Dialer::new(Some(client.clone())).channel(&url).unwrap()).await, told) {
            (Ok(serving), None) => assert!(serving),
            (Err(refusal), Some(told)) => {
                assert!(words(&refusal).contains(told), "{}", words(&refusal));
                let named = Dialer::new(Some(client.expecting_name("example.org").unwrap()));
                assert!(ask(named.channel(&url).unwrap()).await.unwrap());
            }
            (answer, _) => panic!("{file}: {answer:?}"),
        }
    }
}

#[tokio::test]
async fn certificates_and_authorities_are_replaced_while_a_server_runs() {
    let (set, next) = (Set::new(), Set::new());
    let url = serve(verifier(&set)).await;
    let old = set.client("gateway", Role::Verifier).channel(&url).unwrap();
    assert!(ask(old.clone()).await.unwrap());
    let new = next.client("gateway", Role::Verifier);
    assert!(ask(new.channel(&url).unwrap()).await.is_err());
    for file in ["ca.pem", "verifier.pem", "verifier.key"] {
        fs::copy(next.path().join(file), set.path().join(file)).unwrap();
    }
    let begun = Instant::now();
    while ask(new.channel(&url).unwrap()).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(8), "nothing was replaced");
    }
    assert!(ask(old).await.unwrap(), "a connection that was open stays open");
}

#[tokio::test]
async fn a_handshake_that_stands_still_is_ended_and_holds_nobody_up() {
    let set = Set::new();
    let url = serve(verifier(&set)).await;
    let address: SocketAddr = url.trim_start_matches("https://").parse().unwrap();
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert!(ask(set.client("gateway", Role::Verifier).channel(&url).unwrap()).await.unwrap());
    let ended = timeout(Duration::from_secs(8), silent.read(&mut [0; 16])).await;
    assert_eq!(ended.expect("it is still open").unwrap_or(0), 0);
}

#[tokio::test]
async fn files_that_are_of_no_use_are_named() {
    let set = Set::new();
    let refusal = |files: TlsFiles| chain(&ServerTls::load(files).unwrap_err());
    let at = |name: &str| set.path().join(name).display().to_string();
    let absent = refusal(set.files("absent"));
    assert!(absent.starts_with(&format!("{} cannot be read", at("absent.pem"))), "{absent}");
    fs::write(set.path().join("empty.pem"), "").unwrap();
    fs::copy(set.path().join("gateway.key"), set.path().join("empty.key")).unwrap();
    assert_eq!(refusal(set.files("empty")), format!("{} has no certificate", at("empty.pem")));
    let pair = set.files("drafter").identity.map(|own| IdentityFiles { key: at("empty.key").into(), ..own });
    let pair = refusal(TlsFiles { identity: pair, ..set.files("x") });
    let told = format!("the certificate in {} cannot be used with the key in", at("drafter.pem"));
    assert!(pair.starts_with(&told), "{pair}");
    let role = ServerTls::of_service(set.files("gateway"), Role::Drafter, &[]).unwrap_err().to_string();
    let told = format!("the certificate in {} is not for the name drafter.espalier", at("gateway.pem"));
    assert_eq!(role, told);
    let shown = format!("{:?}", verifier(&set));
    assert!(!shown.contains("KEY") && !shown.contains("key"), "{shown}");
}
