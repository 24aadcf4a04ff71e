//! Malformed messages to every RPC, between good answers. `just hostile` sends many more, to processes of their own.

use std::time::Duration;

use espalier_local::{Role, System};
use espalier_proto::pb::drafter_client::DrafterClient;
use espalier_proto::pb::speculate_request::Message;
use espalier_proto::{SequenceId, SequenceSpec, pb};
use espalier_service_kit::channel;
use espalier_tests::hostile::{Addresses, Plan, Surroundings, volley, wrong};
use espalier_tests::{address, answer, client, plan, prompts, request, sampling, start};
use futures::{Stream, StreamExt, stream};
use tonic::Code;

/// Messages to each RPC.
const COUNT: usize = 105;

#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_are_answered_as_such_and_nothing_of_them_is_left() {
    let mut plan = plan(&["small"], Some(2), 1);
    plan.drafters[0].allow_verifiers = vec!["127.0.0.1".parse().unwrap()];
    let system = System::start(plan, |_: &str, _, _| {}).await.unwrap();
    let url = |role| format!("http://{}", address(&system, role));
    let addresses =
        Addresses { gateway: url(Role::Gateway), drafter: url(Role::Drafter), verifier: url(Role::Verifier) };
    let around = Surroundings {
        target: "small".to_owned(),
        verifier: addresses.verifier.clone(),
        nowhere: "http://127.0.0.1:1".to_owned(),
    };
    let cases = Plan { seed: 7, count: COUNT, at_once: 32, around };
    let (prompt, right) = prompts("small").swap_remove(0);
    let asked = request("small", &prompt, 16, sampling(0.0, 0));
    let faults: Vec<String> =
        volley(&cases, &addresses).filter_map(async |sent| wrong(&sent.case, &sent.ended)).collect().await;
    assert!(faults.is_empty(), "{} answers are wrong:\n{}", faults.len(), faults.join("\n"));
    assert_eq!(answer(&client(&system), asked).await.ids(), right[..16]);
    let status = client(&system).status().await.unwrap();
    assert_eq!(status.gateway.requests.open, 0);
}

/// A stream that names a target and never ends.
fn speculation(
    number: u128,
    target: &str,
    verifier: &str,
) -> impl Stream<Item = pb::SpeculateRequest> + Send + 'static {
    let start = pb::Start {
        sequence: Some(SequenceSpec::new(SequenceId::from(number), vec![1, 2, 3], 8).into()),
        target: target.to_owned(),
        verifier: verifier.to_owned(),
        policy: "constant,k=2".to_owned(),
        exit_thresholds: Vec::new(),
        trees: false,
    };
    stream::iter([pb::SpeculateRequest { message: Some(Message::Start(start)) }]).chain(stream::pending())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_no_verifier_has_take_no_slots_from_a_target() {
    let system = start(&["small"], Some(2), 1).await;
    let url = |role| format!("http://{}", address(&system, role));
    let verifier = url(Role::Verifier);
    let mut drafter = DrafterClient::new(channel(&url(Role::Drafter)).unwrap());
    for number in 0..100 {
        let refused = drafter.speculate(speculation(number, &format!("nobody-{number}"), &verifier)).await.unwrap_err();
        let words = format!("the verifier at {verifier} serves `small`, not `nobody-{number}`");
        assert_eq!((refused.code(), refused.message()), (Code::Unavailable, &*words));
    }
    let mut held = Vec::new();
    for number in 1000..1008 {
        held.push(drafter.speculate(speculation(number, "small", &verifier)).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_in_a_hurry_makes_no_service_seem_lost() {
    let system = start(&["small"], Some(2), 1).await;
    let client = client(&system);
    let (prompt, right) = prompts("small").swap_remove(0);
    for number in 0..64 {
        let asked = request("small", &prompt, 4, sampling(0.0, 0));
        let hurried = client.clone().within(Duration::from_micros(500 * (1 + number % 16)));
        // It may be in time.
        let _ = hurried.clone().generate(asked.clone(), |_| {}).await;
        let answer = answer(&client, asked).await;
        assert_eq!((answer.ids(), answer.completion.speculation.failovers), (right[..4].to_vec(), 0));
    }
    let status = client.clone().status().await.unwrap();
    assert!(status.verifiers.iter().all(|verifier| verifier.up) && status.drafters.iter().all(|drafter| drafter.up));
}
