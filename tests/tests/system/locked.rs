//! Promise 5: under TLS the text is the same, and nobody takes part who may not.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use espalier_client::{Answer, Client, ClientError};
use espalier_drafter::{Config as DrafterConfig, Drafter};
use espalier_gateway::{Args, Config, Gateway, LockArgs, Profiles};
use espalier_local::ANY_PORT;
use espalier_model::Team;
use espalier_proto::pb::drafter_client::DrafterClient;
use espalier_proto::{Fault, FaultKind, GenerationRequest, SequenceId, SequenceSpec, Start};
use espalier_service_kit::{Dialer, Role, TlsArgs, bind};
use espalier_tests::{Certificates, Proxy, answer, model, prompts, request, sampling};
use espalier_verifier::{Config as VerifierConfig, Target};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

const TARGET: &str = "small";
const TOKENS: usize = 48;

/// A client of a gateway, which shows some certificate or none.
fn client_of(certificates: &Certificates, gateway: &str, shown: Option<TlsArgs>) -> Client {
    Client::over(&certificates.of_client(shown).dialer(gateway).unwrap(), gateway).unwrap()
}

/// How a service of one kind connects to those of another.
fn dialer(certificates: &Certificates, own: Role, to: Role) -> Dialer {
    certificates.of(own).dialer(own).unwrap().to(to)
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

async fn start_verifier(certificates: &Certificates) -> String {
    let config = VerifierConfig::new(model(TARGET), 2).unwrap();
    let load = move || Target::load(&config, &Team::new(2), |_, _| {}).unwrap();
    let target = tokio::task::spawn_blocking(load).await.unwrap();
    let tls = certificates.of(Role::Verifier).server(Role::Verifier, &[Role::Gateway, Role::Drafter]).unwrap();
    let bound = bind(ANY_PORT).await.unwrap().with_tls(tls);
    let url = bound.url();
    tokio::spawn(espalier_verifier::serve(target, bound, std::future::pending()));
    url
}

async fn start_drafter(certificates: &Certificates) -> String {
    let config = DrafterConfig::new(model(TARGET), Some(3), NonZeroUsize::MIN);
    let config = DrafterConfig { dialer: certificates.of(Role::Drafter).dialer(Role::Drafter).unwrap(), ..config };
    let drafter = tokio::task::spawn_blocking(move || Drafter::load(&config, &Team::new(1)).unwrap()).await.unwrap();
    let tls = certificates.of(Role::Drafter).server(Role::Drafter, &[Role::Gateway]).unwrap();
    let bound = bind(ANY_PORT).await.unwrap().with_tls(tls);
    let url = bound.url();
    tokio::spawn(espalier_drafter::serve(drafter, bound, std::future::pending()));
    url
}

/// What a gateway is told of certificates: those of services, which clients are shown too.
fn locks(certificates: &Certificates) -> LockArgs {
    LockArgs { tls: certificates.of(Role::Gateway), ..LockArgs::default() }
}

async fn start_gateway(verifier: &str, drafter: &str, locks: LockArgs) -> String {
    let args = ["espalier-gateway", "--verifier", verifier, "--drafter", drafter];
    let args = Args { locks, ..Args::parse_from(args) };
    let config = Config::from_args(&args, Profiles::read).unwrap();
    let bound = bind(ANY_PORT).await.unwrap().with_tls(args.locks.door().unwrap());
    let url = bound.url();
    tokio::spawn(espalier_gateway::serve(Gateway::start(config).await, bound, std::future::pending()));
    url
}

/// Asks for the first prompt of the target; whether the text was the target's own, in drafts of the drafter, without a loss.
async fn is_answered_well(client: &Client) -> bool {
    let (prompt, greedy) = prompts(TARGET).remove(0);
    let asked = request(TARGET, &prompt, TOKENS, sampling(0.0, 0));
    let found = answer(client, asked).await;
    let speculation = &found.completion.speculation;
    found.ids() == greedy[..TOKENS] && speculation.drafter != "ngram" && speculation.failovers == 0
}

#[tokio::test]
async fn under_tls_the_text_is_the_same_and_certificates_are_replaced_under_load_without_a_lost_stream() {
    let (old, new) = (Certificates::new(), Certificates::new());
    let (verifier, drafter) = (start_verifier(&old).await, start_drafter(&old).await);
    let gateway = start_gateway(&verifier, &drafter, locks(&old)).await;
    let client = client_of(&old, &gateway, None);
    assert!(is_answered_well(&client).await);
    assert!(client_of(&new, &gateway, None).targets().await.is_err(), "of another authority");

    copy(new.folder(), old.folder());
    // While text is streamed over the connections that are there, whoever connects anew is shown the new certificate.
    let mut late = client_of(&new, &gateway, None);
    let (begun, mut answers) = (Instant::now(), 0);
    while late.targets().await.is_err() {
        assert!(is_answered_well(&client).await);
        answers += 1;
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing was replaced");
    }
    assert!(answers > 0 && is_answered_well(&client).await, "after {answers} answers");
    // All services have, within a few seconds of each other.
    let next = start_gateway(&verifier, &drafter, locks(&new)).await;
    let client = client_of(&new, &next, None);
    while client.clone().targets().await.unwrap().iter().all(|target| target.drafters.is_empty()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "some were not replaced");
        tokio::task::yield_now().await;
    }
    assert!(is_answered_well(&client).await);
}

/// A proxy in front of a service.
async fn proxy(service: &str) -> (Proxy, String) {
    let proxy = Proxy::start(service.strip_prefix("https://").unwrap().parse().unwrap()).await;
    let url = proxy.url().replace("http://", "https://");
    (proxy, url)
}

/// How long a question may be refused while its target has no verifier.
const PATIENCE: Duration = Duration::from_secs(60);

/// The answer to a question that is asked again, as the refusal says, while its target has no verifier: where a byte was
/// changed at the end of an answer, the next question may come before the gateway has found the only one again. What was let
/// in has to be answered whole.
async fn answer_once_let_in(client: &Client, asked: GenerationRequest) -> Answer {
    let begun = Instant::now();
    loop {
        let mut heard = 0;
        match client.clone().generate(asked.clone(), |new| heard += new.len()).await {
            Err(ClientError::Fault(Fault { kind: FaultKind::Gone, retry_after: Some(after), .. }))
                if heard == 0 && begun.elapsed() < PATIENCE =>
            {
                sleep(after).await;
            }
            answered => return answered.unwrap(),
        }
    }
}

/// Where the network changes bytes, one of so many: some for each answer, and none for a handshake.
const GARBLED_ONE_OF: usize = 5 << 10;

/// Questions that are asked over such a network.
const GARBLED_QUESTIONS: usize = 6;

#[tokio::test]
async fn under_tls_a_network_that_changes_bytes_changes_no_text() {
    let certificates = Certificates::new();
    let (verifier, drafter) = (start_verifier(&certificates).await, start_drafter(&certificates).await);
    let (to_verifier, verifier) = proxy(&verifier).await;
    let (to_drafter, drafter) = proxy(&drafter).await;
    let gateway = start_gateway(&verifier, &drafter, locks(&certificates)).await;
    let client = client_of(&certificates, &gateway, None);
    assert!(is_answered_well(&client).await);

    let proxies = [&to_verifier, &to_drafter];
    proxies.iter().for_each(|proxy| proxy.garble(GARBLED_ONE_OF));
    let (prompt, greedy) = prompts(TARGET).remove(0);
    let asked = || request(TARGET, &prompt, greedy.len(), sampling(0.0, 0));
    let mut failovers = 0;
    for _ in 0..GARBLED_QUESTIONS {
        let found = answer_once_let_in(&client, asked()).await;
        assert_eq!(found.ids(), greedy);
        failovers += found.completion.speculation.failovers;
    }
    let garbled = (to_verifier.garbled(), to_drafter.garbled());
    println!("{garbled:?} bytes changed before verifier and drafter, {failovers} failovers");
    assert!(garbled.0 > 0 && garbled.1 > 0 && failovers > 0);

    proxies.iter().for_each(|proxy| proxy.mend());
    assert_eq!(answer_once_let_in(&client, asked()).await.ids(), greedy);
    let begun = Instant::now();
    while !is_answered_well(&client).await {
        assert!(begun.elapsed() < Duration::from_secs(60), "drafts are not offered again");
    }
}

#[tokio::test]
async fn who_is_no_client_of_this_door_is_not_let_in() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    // Nobody needs to be there for a gateway to say that nobody is.
    let locks = LockArgs { door_ca: Some(certificates.authority()), ..locks(&certificates) };
    let gateway = start_gateway("https://127.0.0.1:1", "https://127.0.0.1:1", locks).await;
    let client = |shown| client_of(&certificates, &gateway, shown);
    assert!(client(Some(certificates.of(Role::Verifier))).targets().await.unwrap().is_empty());
    for mut client in [client(None), client(Some(others.of(Role::Gateway)))] {
        let refusal = client.targets().await.unwrap_err();
        let ClientError::Fault(fault) = refusal else { panic!("{refusal:?}") };
        assert!(fault.message.contains("received fatal alert"), "{fault}");
    }
}

/// What a drafter says to who calls with some certificate, and has it send its trees to some address.
async fn speculate(drafter: &str, caller: Dialer, verifier: &str) -> Status {
    let start = Start {
        sequence: SequenceSpec::new(SequenceId::from(1), vec![1, 300], 4),
        target: TARGET.to_owned(),
        verifier: verifier.to_owned(),
        policy: "svip".to_owned(),
        exit_thresholds: None,
        trees: false,
    };
    let messages = futures::stream::iter([start.into()]);
    DrafterClient::new(caller.channel(drafter).unwrap()).speculate(messages).await.unwrap_err()
}

#[tokio::test]
async fn a_drafter_serves_gateways_alone_and_sends_nothing_to_who_is_no_verifier() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let drafter = start_drafter(&certificates).await;
    let as_verifier = dialer(&certificates, Role::Verifier, Role::Drafter);
    let refusal = speculate(&drafter, as_verifier, "https://127.0.0.1:1").await;
    assert_eq!(refusal.code(), Code::PermissionDenied, "{refusal}");

    let gateway = || dialer(&certificates, Role::Gateway, Role::Drafter);
    let foreign = start_verifier(&others).await;
    // Itself, which has a certificate of the authority but not a verifier's, and a verifier of another authority.
    for elsewhere in [&drafter, &foreign] {
        let refusal = speculate(&drafter, gateway(), elsewhere).await;
        assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
    }
    let clear = foreign.replace("https", "http");
    let refusal = speculate(&drafter, gateway(), &clear).await;
    assert_eq!(refusal.code(), Code::InvalidArgument, "{refusal}");
    assert!(refusal.message().contains("would be spoken to in the clear"), "{refusal}");
}
