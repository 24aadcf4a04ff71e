//! A service that is lost is left alone until it answers, and one that fails whoever comes is not overrun.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::*;
use espalier_gateway::Config;
use espalier_proto::GenerationRequest;
use tokio::task::JoinSet;
use tonic::Code;

/// Sequences that run at once; a toy verifier takes eight.
const MANY: usize = 6;

fn plain(max_tokens: usize) -> GenerationRequest {
    GenerationRequest { speculate: false, ..request(max_tokens) }
}

fn set(flag: &AtomicBool, to: bool) {
    flag.store(to, Ordering::SeqCst);
}

/// Texts that have begun, and that are read from now on.
struct Running(JoinSet<Answer>);

impl Running {
    /// `spoil` is what happens once all have begun.
    async fn start(url: &str, spoil: impl FnOnce()) -> Self {
        let mut begun = Vec::new();
        for _ in 0..MANY {
            begun.push(begin(url, plain(500)).await);
        }
        spoil();
        let mut running = JoinSet::new();
        for stream in begun {
            running.spawn(async { rest(stream).await.unwrap() });
        }
        Self(running)
    }

    /// All of them end as they should.
    async fn check(self) {
        let whole = plain_text(&PROMPT, 500);
        for answer in self.0.join_all().await {
            assert!(whole.ends_with(&answer.ids()));
        }
    }
}

#[tokio::test]
async fn a_verifier_that_fails_whoever_comes_gets_no_more_tries_in_a_second_than_there_are_sequences() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let begun = Instant::now();
    let running = Running::start(&url, || set(&toy.life.flaps, true)).await;
    // Each once, and each again, and one more.
    eventually(|| toy.life.tries() > MANY + 2 * MANY).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2), "{} tries came within {took:?}", toy.life.tries() - MANY);
    println!("{} tries of {MANY} sequences within {took:?}", toy.life.tries() - MANY);
    set(&toy.life.flaps, false);
    running.check().await;
}

#[tokio::test]
async fn nobody_tries_a_verifier_that_is_down_and_all_go_on_when_it_answers() {
    let toy = verifier("toy").await;
    let url = gateway(&[&toy], &[]).await;
    let spoil = || {
        set(&toy.life.mute, true);
        set(&toy.life.flaps, true);
    };
    let running = Running::start(&url, spoil).await;
    let asked = toy.life.asked();
    eventually(|| toy.life.asked() >= asked + 5).await;
    assert_eq!(toy.life.tries(), MANY, "nobody came again");
    set(&toy.life.flaps, false);
    set(&toy.life.mute, false);
    running.check().await;
    assert_eq!(toy.life.tries(), 2 * MANY, "each came again once");
}

#[tokio::test]
async fn a_verifier_that_only_the_drafter_does_not_reach_goes_on_without_the_drafter() {
    let (toy, small) = (verifier("toy").await, drafter("small", None).await);
    set(&small.life.cut_off, true);
    let url = gateway(&[&toy], &[&small]).await;
    let answer = generate(&url, request(200)).await.unwrap();
    assert_eq!(answer.ids(), plain_text(&PROMPT, 200));
    let speculation = answer.completion.speculation;
    assert_eq!((speculation.drafter.as_str(), speculation.failovers, small.life.tries()), ("ngram", 2, 2));
}

#[tokio::test]
async fn who_waited_for_a_slot_is_refused_if_the_target_has_gone_down_meanwhile() {
    let toy = verifier("toy").await;
    let config = Config::new(std::slice::from_ref(&toy.url), &[]).unwrap().with_limits(1, 8).unwrap();
    let (url, gateway) = start_and_watch(config).await;
    let held = begin(&url, plain(500)).await;
    let waiting = tokio::spawn({
        let url = url.clone();
        async move { generate(&url, plain(5)).await }
    });
    eventually(|| gateway.occupancy().queued == 1).await;
    set(&toy.life.mute, true);
    eventually(|| gateway.targets().is_empty()).await;
    drop(held);
    let refusal = waiting.await.unwrap().err().unwrap();
    let words = "no verifier of target `toy` takes sequences at present";
    assert_eq!((refusal.code(), refusal.message(), toy.life.tries()), (Code::Unavailable, words, 1));
}
