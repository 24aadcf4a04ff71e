//! More than there is room for: what is served is right, what is refused is refused at once, and a reader that stalls
//! holds up nobody else.

use std::time::{Duration, Instant};

use espalier_client::{Answer, Client, ClientError};
use espalier_local::{Plan, System};
use espalier_proto::pb::generation_client::GenerationClient;
use espalier_proto::{Chunk, FaultKind, GenerationEvent, GenerationRequest, Party, pb};
use espalier_speculation::Token;
use espalier_tests::{client, plan, prompts, request, sampling};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::transport::Endpoint;

const REQUESTS: usize = 1000;

/// Slots and queue together.
const BOUND: usize = 64;
const SLOTS: usize = 24;

/// Long enough for a machine that is busy with other tests; what it takes otherwise, the test prints.
const REFUSED_WITHIN: Duration = Duration::from_secs(10);

/// The time after which somebody is held up.
const PATIENCE: Duration = Duration::from_secs(60);

const TOKENS: usize = 4;

async fn start(slots: usize, queued_max: usize) -> System {
    let mut plan = plan(&["small"], Some(2), 2);
    let (verifier, listen) = plan.verifiers.remove(0);
    plan.verifiers = vec![(verifier.with_sequences_max(slots).unwrap(), listen)];
    let plan = Plan { requests_max: slots, queued_max, ..plan };
    System::start(plan, |_: &str, _, _| {}).await.unwrap()
}

fn asked(prompt: &[Token], max_tokens: usize) -> GenerationRequest {
    request("small", prompt, max_tokens, sampling(0.0, 0))
}

/// What became of a request, when.
type Outcome = (usize, Result<Answer, ClientError>, Duration);

/// Asks all at once, in the names of four clients.
async fn storm(system: &System, prompts: &[(Vec<Token>, Vec<Token>)]) -> Vec<Outcome> {
    let clients: Vec<Client> = (0..4).map(|i| client(system).named(&format!("client {i}")).unwrap()).collect();
    let mut asking = JoinSet::new();
    for i in 0..REQUESTS {
        let (mut client, asked) = (clients[i % 4].clone(), asked(&prompts[i % prompts.len()].0, TOKENS));
        asking.spawn(async move {
            let begun = Instant::now();
            let outcome = client.generate(asked, |_| {}).await;
            (i, outcome, begun.elapsed())
        });
    }
    asking.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_at_once_are_served_right_or_refused_at_once() {
    let system = start(SLOTS, BOUND - SLOTS).await;
    let prompts: Vec<_> = prompts("small").into_iter().take(8).collect();
    let outcomes = storm(&system, &prompts).await;
    let (mut served, mut refusals) = (0, Vec::new());
    for (i, outcome, took) in outcomes {
        match outcome {
            Ok(answer) => {
                assert_eq!(answer.ids(), prompts[i % prompts.len()].1[..TOKENS]);
                served += 1;
            }
            Err(ClientError::Fault(fault)) => {
                assert_eq!((fault.party, fault.kind), (Party::Gateway, FaultKind::Overloaded), "{fault}");
                let hint = fault.retry_after.unwrap();
                assert!((Duration::from_millis(50)..=Duration::from_secs(30)).contains(&hint), "{hint:?}");
                refusals.push(took);
            }
            Err(error) => panic!("{error}"),
        }
    }
    refusals.sort();
    // Four clients share the queue, and leave a part of it free.
    assert!(
        served >= SLOTS + (BOUND - SLOTS) / 2 && served + refusals.len() == REQUESTS,
        "{served} served, {} refused",
        refusals.len()
    );
    let (median, last) = (refusals[refusals.len() / 2], refusals[refusals.len() - 1]);
    println!("{served} served; {} refused after {median:?} (median), {last:?} (last)", refusals.len());
    assert!(last < REFUSED_WITHIN, "{last:?}");

    // And all is as before.
    assert_eq!(system.occupancy(), Default::default());
    let (prompt, expected) = &prompts[0];
    assert_eq!(client(&system).generate(asked(prompt, TOKENS), |_| {}).await.unwrap().ids(), expected[..TOKENS]);
    system.stop().await.unwrap();
}

/// How long some requests take, one after the other.
async fn paced(client: &mut Client, prompts: &[(Vec<Token>, Vec<Token>)]) -> Duration {
    let begun = Instant::now();
    for (prompt, expected) in prompts {
        let answer = client.generate(asked(prompt, expected.len()), |_| {}).await.unwrap();
        assert_eq!(answer.ids(), *expected);
    }
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stalls_holds_up_nobody_and_gets_its_text_when_it_is_back() {
    let system = start(4, 0).await;
    let prompts: Vec<_> = prompts("small").into_iter().take(8).collect();
    let mut reader = client(&system);
    paced(&mut reader, &prompts[..2]).await;
    let alone = paced(&mut reader, &prompts[2..]).await;

    // Three read that it has begun and a round each, of which the network holds hardly more.
    let (long, tokens) = (&prompts[0].0, 400);
    let narrow = Endpoint::from_shared(system.gateway().to_owned()).unwrap().initial_stream_window_size(256);
    let mut stalled = Vec::new();
    for _ in 0..3 {
        let asked = pb::GenerateRequest::from(asked(long, tokens));
        let answer = GenerationClient::new(narrow.connect_lazy()).generate(asked).await.unwrap();
        let mut events = answer.into_inner();
        events.message().await.unwrap().unwrap();
        events.message().await.unwrap().unwrap();
        stalled.push(events);
    }
    let beside = timeout(PATIENCE, paced(&mut reader, &prompts[2..])).await.unwrap();
    println!("six answers took {alone:?} alone, and {beside:?} beside three readers that stall");

    let mut texts = Vec::new();
    for mut events in stalled {
        let mut ids = Vec::new();
        while let Some(event) = events.message().await.unwrap() {
            if let GenerationEvent::Tokens(Chunk { tokens, .. }) = GenerationEvent::try_from(event).unwrap() {
                ids.extend(tokens.iter().map(|token| token.id));
            }
        }
        texts.push(ids);
    }
    // But for the first message, which was read before.
    let whole = reader.generate(asked(long, tokens), |_| {}).await.unwrap().ids();
    assert!(texts.iter().all(|ids| !ids.is_empty() && whole.ends_with(ids)));
    system.stop().await.unwrap();
}
