//! Who is let in when there are more requests than slots, and what a client that does not read can hold.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::*;
use espalier_gateway::{Config, Gateway, Occupancy};
use espalier_proto::{CLIENT_NAME_KEY, GenerationRequest, Message, Prompt, pb};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::{Code, Request, Status, Streaming};

const SOON: Duration = Duration::from_millis(150);

/// A gateway with so many slots, and so many in its queue.
async fn gateway_with(toy: &Toy, requests_max: usize, queued_max: usize) -> (String, Gateway) {
    let config = Config::new(std::slice::from_ref(&toy.url), &[]).unwrap();
    start_and_watch(config.with_limits(requests_max, queued_max).unwrap()).await
}

fn plain(max_tokens: usize) -> GenerationRequest {
    GenerationRequest { speculate: false, ..request(max_tokens) }
}

/// A request that keeps its slot until it is dropped.
async fn hold(url: &str) -> Streaming<pb::GenerateResponse> {
    narrow_client(url).generate(pb::GenerateRequest::from(plain(500))).await.unwrap().into_inner()
}

/// A request of one token from a client of this name.
fn asked_by(name: &str) -> Request<pb::GenerateRequest> {
    let mut asked = Request::new(pb::GenerateRequest::from(plain(1)));
    asked.metadata_mut().insert(CLIENT_NAME_KEY, name.parse().unwrap());
    asked
}

/// Asks and reads to the end.
async fn whole(url: &str, asked: Request<pb::GenerateRequest>) -> Result<(), Status> {
    let mut stream = client(url).generate(asked).await?.into_inner();
    while stream.message().await?.is_some() {}
    Ok(())
}

fn has(running: usize, queued: usize) -> Occupancy {
    Occupancy { running, queued }
}

#[tokio::test]
async fn without_a_queue_more_requests_than_slots_are_refused_at_once() {
    let toy = verifier("toy").await;
    let (url, gateway) = gateway_with(&toy, 1, 0).await;
    let held = hold(&url).await;
    let refusal = generate(&url, request(1)).await.err().unwrap();
    assert_eq!(refusal.code(), Code::ResourceExhausted);
    assert_eq!(refusal.message(), "1 requests are being served and 0 wait, which are the limits");
    assert_eq!(refusal.metadata().get("retry-after-ms").unwrap(), "250");
    drop(held);
    eventually(|| gateway.occupancy() == has(0, 0)).await;
    assert_eq!(generate(&url, request(20)).await.unwrap().ids(), plain_text(&PROMPT, 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn who_has_read_its_last_word_finds_its_slot_free() {
    let toy = verifier("toy").await;
    let (clients, answers) = (16, 50);
    let (url, gateway) = gateway_with(&toy, clients, 0).await;
    let mut asking = JoinSet::new();
    for _ in 0..clients {
        let url = url.clone();
        asking.spawn(async move {
            for answer in 0..answers {
                generate(&url, plain(1)).await.unwrap_or_else(|refusal| panic!("after {answer} answers: {refusal}"));
            }
        });
    }
    while let Some(done) = asking.join_next().await {
        done.unwrap();
    }
    assert_eq!(gateway.occupancy(), has(0, 0));
}

#[tokio::test]
async fn a_client_with_many_requests_does_not_keep_another_from_being_served() {
    let toy = verifier("toy").await;
    let (url, gateway) = gateway_with(&toy, 1, 64).await;
    let held = hold(&url).await;
    let (served, mut asking) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    let mut ask = |name: &'static str, waiting: usize| {
        let (url, served) = (url.clone(), Arc::clone(&served));
        asking.spawn(async move {
            whole(&url, asked_by(name)).await.unwrap();
            served.lock().unwrap().push(name);
        });
        let gateway = &gateway;
        async move { eventually(|| gateway.occupancy() == has(1, waiting)).await }
    };
    for waiting in 1..=20 {
        ask("many", waiting).await;
    }
    ask("one", 21).await;
    drop(held);
    while let Some(done) = asking.join_next().await {
        done.unwrap();
    }
    let served = served.lock().unwrap();
    let place = served.iter().position(|name| *name == "one").unwrap();
    assert!(served.len() == 21 && place <= 2, "its turn comes after one of the other's: {served:?}");
    assert_eq!(gateway.occupancy(), has(0, 0));
}

#[tokio::test]
async fn a_deadline_that_passes_in_the_queue_ends_the_wait_on_time() {
    let toy = verifier("toy").await;
    let (url, gateway) = gateway_with(&toy, 1, 8).await;
    let held = hold(&url).await;
    let mut asked = asked_by("hasty");
    asked.set_timeout(SOON);
    // The client's own clock may strike first, which it calls a cancellation.
    let status = whole(&url, asked).await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
    eventually(|| gateway.occupancy() == has(1, 0)).await;
    drop(held);
    eventually(|| gateway.occupancy() == has(0, 0)).await;
}

#[tokio::test]
async fn who_stops_waiting_leaves_the_queue_at_once() {
    let toy = verifier("toy").await;
    let (url, gateway) = gateway_with(&toy, 1, 8).await;
    let _held = hold(&url).await;
    let waiting = tokio::spawn({
        let url = url.clone();
        async move { whole(&url, asked_by("gone")).await }
    });
    eventually(|| gateway.occupancy() == has(1, 1)).await;
    waiting.abort();
    eventually(|| gateway.occupancy() == has(1, 0)).await;
}

#[tokio::test]
async fn a_name_that_is_none_is_bad_input() {
    let toy = verifier("toy").await;
    let (url, _) = gateway_with(&toy, 1, 8).await;
    let status = whole(&url, asked_by(&"x".repeat(65))).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("has 65 bytes; it must be 1 to 64 printable"), "{status}");
}

#[tokio::test]
async fn a_prompt_that_is_being_read_has_its_place_until_that_is_done_though_its_client_has_gone() {
    let toy = verifier("toy").await;
    // So long that the prompt might fit, and so short that it does not.
    toy.life.context.store(300_000, Ordering::SeqCst);
    let (url, gateway) = gateway_with(&toy, 1, 0).await;
    // As long as a message may be, and read in a second or so.
    let prompt = Prompt::Text("How many apples are there? ".repeat(3 << 20 >> 5));
    let asking = tokio::spawn(async move { generate(&url, GenerationRequest { prompt, ..plain(1) }).await.map(drop) });
    eventually(|| gateway.occupancy().running == 1).await;
    asking.abort();
    // Long enough for the gateway to hear of it, short beside the reading.
    let heard = tokio::time::Instant::now() + Duration::from_millis(100);
    eventually(|| tokio::time::Instant::now() > heard).await;
    assert_eq!(gateway.occupancy().running, 1);
    eventually(|| gateway.occupancy().running == 0).await;
}

#[tokio::test]
async fn a_text_that_cannot_fit_is_refused_unread() {
    let toy = verifier("toy").await;
    let (url, _) = gateway_with(&toy, 1, 0).await;
    let text = "How many apples are there? ".repeat(5000);
    let said = vec![Message::new("user", text.clone())].into();
    // By the length of the message, before it is read, what no target could serve.
    let longer = GenerationRequest { prompt: Prompt::Text(text.repeat(20)), ..plain(1) };
    assert_eq!(generate(&url, longer).await.err().unwrap().code(), Code::OutOfRange);
    for prompt in [Prompt::Text(text), Prompt::Conversation(said)] {
        let status = generate(&url, GenerationRequest { prompt, ..plain(1) }).await.err().unwrap();
        let longest = tokenizer().longest_token();
        let words = format!(
            "the prompt has 135000 bytes, but the context of `toy` is {CONTEXT} tokens of {longest} bytes at most: {}",
            CONTEXT * longest
        );
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, words.as_str()));
    }
}

#[tokio::test]
async fn who_reads_nothing_for_too_long_or_past_its_deadline_gives_its_place_to_others() {
    let toy = verifier("toy").await;
    for deadline in [None, Some("900m")] {
        let unread_max = Duration::from_secs(if deadline.is_some() { 3600 } else { 1 });
        let config = Config::new(std::slice::from_ref(&toy.url), &[]).unwrap().with_limits(1, 1).unwrap();
        let (url, _) = start_and_watch(config.with_unread_max(unread_max)).await;
        let mut asked = Request::new(pb::GenerateRequest::from(plain(500)));
        if let Some(deadline) = deadline {
            asked.metadata_mut().insert("grpc-timeout", deadline.parse().unwrap());
        }
        let mut stalled = narrow_client(&url).generate(asked).await.unwrap().into_inner();
        stalled.message().await.unwrap().unwrap();
        // It waits for the place of the one that reads nothing, who has forty seconds and more to go.
        let other = timeout(Duration::from_secs(10), generate(&url, plain(20))).await.unwrap();
        assert_eq!(other.unwrap().ids(), plain_text(&PROMPT, 20));
        let end = loop {
            match stalled.message().await {
                Ok(Some(_)) => {}
                end => break end,
            }
        };
        assert!(end.is_err(), "an answer that was given up ended as if it were whole");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_its_window_and_slows_nobody() {
    let toy = verifier("toy").await;
    let (url, _) = gateway_with(&toy, 256, 0).await;
    let mut stalled = hold(&url).await;
    let first = stalled.message().await.unwrap();
    assert!(first.is_some());
    let others: Vec<_> = (0..8).map(|_| generate(&url, plain(100))).collect();
    for other in futures::future::join_all(others).await {
        assert_eq!(other.unwrap().ids(), plain_text(&PROMPT, 100));
    }
    // What is in the network, two hundred and fifty bytes, is read; then come the rounds that were granted.
    let ran_for_stalled = toy.life.rounds() - 800;
    assert!(ran_for_stalled <= 48, "{ran_for_stalled} rounds ran for a client that has read one");
    println!("rounds that ran for a client that has read one: {ran_for_stalled}");
    let mut rounds = 1;
    while stalled.message().await.unwrap().is_some() {
        rounds += 1;
    }
    assert_eq!(rounds, 502, "that it has begun, 500 rounds of one token each, and the end");
}
