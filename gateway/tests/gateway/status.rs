//! What the gateway tells of its work, and of the services behind it.

use std::sync::atomic::Ordering;

use crate::support::*;
use clap::Parser;
use espalier_gateway::{Args, Config, Profiles};
use espalier_proto::pb::generation_client::GenerationClient;
use espalier_proto::{EndCounts, GenerationRequest, RoundCounts, Slots, SystemStatus, pb};
use espalier_speculation::StopStrings;
use tonic::transport::Endpoint;

/// Asks for the status until it is as expected; fails after five seconds.
async fn until(url: &str, expected: impl Fn(&SystemStatus) -> bool) -> SystemStatus {
    let asked = async {
        loop {
            let status = status(url).await;
            if expected(&status) {
                return status;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(5), asked).await.unwrap()
}

#[tokio::test]
async fn what_was_said_is_counted_exactly() {
    let (toy, small) = (verifier("toy").await, drafter("small", None).await);
    let url = gateway(&[&toy], &[&small]).await;
    assert_eq!(status(&url).await.gateway.rounds, RoundCounts::default());

    let plain = GenerationRequest { speculate: false, ..request(7) };
    let whole = generate(&url, request(90)).await.unwrap();
    let word = whole.tokens.iter().find(|token| !token.text.trim().is_empty()).unwrap().text.clone();
    let stops = GenerationRequest { stop_strings: StopStrings::new(vec![word]).unwrap(), ..request(90) };
    let mut expected = RoundCounts::default();
    let mut answers = vec![whole];
    for request in [plain, stops, request(200)] {
        answers.push(generate(&url, request).await.unwrap());
    }
    for answer in &answers {
        let speculation = &answer.completion.speculation;
        expected.rounds += speculation.rounds;
        expected.drafted += speculation.drafted;
        expected.verified += speculation.verified;
        expected.accepted += speculation.accepted;
        expected.tokens += answer.tokens.len() as u64;
    }
    assert!(generate(&url, request(0)).await.is_err());

    let told = status(&url).await;
    assert_eq!(told.gateway.rounds, expected);
    assert_eq!(told.gateway.requests, Slots { open: 0, max: Config::REQUESTS_MAX });
    assert_eq!(told.gateway.ended, EndCounts { stop: 1, length: 3, invalid: 1, ..EndCounts::default() });

    let [verifier] = told.verifiers.as_slice() else { panic!("{told:?}") };
    assert_eq!((verifier.url.as_str(), verifier.name.as_deref(), verifier.up), (toy.url.as_str(), Some("toy"), true));
    assert!(verifier.status.as_ref().unwrap().rounds.rounds >= expected.rounds);
    let [drafter] = told.drafters.as_slice() else { panic!("{told:?}") };
    assert_eq!((drafter.name.as_deref(), drafter.up), (Some("small"), true));
}

#[tokio::test]
async fn requests_count_as_running_until_they_end_or_are_abandoned() {
    let toy = verifier("toy").await;
    let fixed = ["gateway", "--verifier", &toy.url, "--requests-max", "1", "--queued-max", "1"];
    let url = start(Config::from_args(&Args::parse_from(fixed), Profiles::read).unwrap()).await;
    // Little runs ahead of a client with a narrow window.
    let narrow = Endpoint::from_shared(url.clone()).unwrap().initial_stream_window_size(256);
    let mut narrow = GenerationClient::new(narrow.connect_lazy());
    let plain = GenerationRequest { speculate: false, ..request(500) };
    let mut running = narrow.generate(pb::GenerateRequest::from(plain)).await.unwrap().into_inner();
    running.message().await.unwrap().unwrap();
    let waiting = {
        let url = url.clone();
        tokio::spawn(async move { generate(&url, request(5)).await })
    };
    until(&url, |status| status.gateway.requests_queued == 1).await;
    assert!(generate(&url, request(5)).await.is_err(), "there is one slot, and one in the queue");

    let busy = status(&url).await;
    assert_eq!(busy.gateway.requests, Slots { open: 1, max: 1 });
    assert_eq!(busy.gateway.ended, EndCounts { refused: 1, ..EndCounts::default() });
    waiting.abort();
    let gone = until(&url, |status| status.gateway.requests_queued == 0).await;
    assert_eq!(gone.gateway.ended, EndCounts { refused: 1, abandoned: 1, ..EndCounts::default() });
    drop(running);
    let idle = until(&url, |status| status.gateway.requests.open == 0).await;
    assert_eq!(idle.gateway.ended, EndCounts { refused: 1, abandoned: 2, ..EndCounts::default() });
    until(&url, |status| status.verifiers[0].status.as_ref().unwrap().sequences.open == 0).await;
}

#[tokio::test]
async fn a_service_that_says_nothing_or_is_gone_holds_nobody_up() {
    let (toy, small, gone) = (verifier("toy").await, drafter("small", None).await, Toy::gone().await);
    let url = gateway(&[&toy, &gone], &[&small]).await;
    small.life.silent.store(true, Ordering::SeqCst);
    let told = status(&url).await;
    assert!(told.verifiers[0].status.is_some() && told.verifiers[0].up);
    let lost = &told.verifiers[1];
    assert_eq!((&lost.url, &lost.name, lost.up, &lost.status), (&gone.url, &None, false, &None));
    // It still says what it is.
    assert_eq!((told.drafters[0].name.as_deref(), told.drafters[0].up), (Some("small"), true));
    assert_eq!(told.drafters[0].status, None);
}
