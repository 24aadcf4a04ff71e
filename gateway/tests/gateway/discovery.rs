//! Services come and go; each takes its share of the sequences, and sessions stay where they were.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::*;
use espalier_gateway::{Config, Resolver};
use espalier_proto::{GenerationRequest, Prompt, pb};
use tonic::Code;

/// A name, and whom it stands for.
#[derive(Clone, Default)]
struct Name(Arc<Mutex<Vec<SocketAddr>>>);

impl Name {
    fn stands_for(&self, toys: &[&Toy]) {
        *self.0.lock().unwrap() = toys.iter().map(|toy| toy.address()).collect();
    }

    fn resolver(&self) -> Resolver {
        let Self(addresses) = self.clone();
        Resolver::new(Duration::from_millis(10), move |_, _| {
            let found = addresses.lock().unwrap().clone();
            async { Ok(found) }
        })
    }

    /// A gateway that knows verifiers by this name alone.
    async fn gateway(&self) -> String {
        let config = Config::new(&["dns+http://verifiers:50052".to_owned()], &[]).unwrap();
        start(config.with_resolver(self.resolver())).await
    }
}

/// Asks in one session after the other until `done`.
async fn ask_until(url: &str, done: impl Fn() -> bool) {
    let asking = async {
        for session in 0.. {
            if done() {
                return;
            }
            let answer = generate_in_session(url, &format!("session-{session}"), request(20)).await.unwrap();
            assert_eq!(answer.ids(), plain_text(&PROMPT, 20));
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asking).await.unwrap();
}

async fn targets(url: &str) -> usize {
    client(url).list_targets(pb::ListTargetsRequest {}).await.unwrap().into_inner().targets.len()
}

async fn until_targets_are(url: &str, count: usize) {
    let asking = async {
        while targets(url).await != count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asking).await.unwrap();
}

#[tokio::test]
async fn a_verifier_that_joins_gets_sequences_and_one_that_leaves_gets_none() {
    let (first, second, name) = (verifier("toy").await, verifier("toy").await, Name::default());
    name.stands_for(&[&first]);
    let url = name.gateway().await;
    ask_until(&url, || first.life.rounds() > 0).await;
    name.stands_for(&[&first, &second]);
    ask_until(&url, || second.life.rounds() > 0).await;
    // Of another name, so that it shows when the change was noticed.
    let sign = verifier("sign").await;
    name.stands_for(&[&second, &sign]);
    until_targets_are(&url, 2).await;
    let before = first.life.rounds();
    let asked = second.life.rounds();
    ask_until(&url, || second.life.rounds() > asked + 100).await;
    assert_eq!(first.life.rounds(), before);
}

#[tokio::test]
async fn what_a_verifier_runs_when_it_leaves_goes_on_there() {
    let (toy, name) = (verifier("toy").await, Name::default());
    name.stands_for(&[&toy]);
    let url = name.gateway().await;
    let running = begin(&url, request(500)).await;
    name.stands_for(&[]);
    until_targets_are(&url, 0).await;
    let answer = rest(running).await.unwrap();
    assert_eq!((answer.completion.completion_tokens, answer.completion.speculation.failovers), (500, 0));
}

#[tokio::test]
async fn a_verifier_that_drains_gets_nothing_new_and_what_it_runs_moves_at_a_round_s_end() {
    let (one, two) = (verifier("toy").await, verifier("toy").await);
    let url = gateway(&[&one, &two], &[]).await;
    let running = begin(&url, request(500)).await;
    let [draining, other] = if one.life.open() > 0 { [&one, &two] } else { [&two, &one] };
    draining.drain();
    // The same prompt would prefer the same verifier.
    let asking = async {
        while other.life.rounds() == 0 {
            assert_eq!(generate(&url, request(100)).await.unwrap().ids(), plain_text(&PROMPT, 100));
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asking).await.unwrap();
    let ran = draining.life.rounds();
    let moved = rest(running).await.unwrap();
    assert_eq!(moved.completion.speculation.failovers, 1);
    assert!(draining.life.rounds() <= ran + 1, "a round may have been under way");
    assert!(plain_text(&PROMPT, 500).ends_with(&moved.ids()));
    eventually(|| draining.life.open() == 0).await;
}

#[tokio::test]
async fn who_asks_for_a_target_that_is_down_is_told_so_at_once_though_all_slots_are_taken() {
    let (toy, other) = (verifier("toy").await, verifier("other").await);
    let config = Config::new(&[toy.url.clone(), other.url.clone()], &[]).unwrap().with_limits(1, 8).unwrap();
    let url = start(config).await;
    until_targets_are(&url, 2).await;
    let _running = begin(&url, request(500)).await;
    other.drain();
    until_targets_are(&url, 1).await;
    let asked = GenerationRequest { target: "other".to_owned(), ..request(5) };
    let refusal = generate(&url, asked).await.err().unwrap();
    let words = "no verifier of target `other` takes sequences at present";
    assert_eq!((refusal.code(), refusal.message()), (Code::Unavailable, words));
    assert_eq!(refusal.metadata().get("retry-after-ms").unwrap(), "250");
}

#[tokio::test]
async fn a_drafter_that_drains_is_left_at_a_round_s_end_if_there_is_another() {
    let (toy, one, two) = (verifier("toy").await, drafter("small", None).await, drafter("small", None).await);
    let url = gateway(&[&toy], &[&one, &two]).await;
    let running = begin(&url, request(500)).await;
    let [draining, other] = if one.life.open() > 0 { [&one, &two] } else { [&two, &one] };
    draining.drain();
    let asking = async {
        while other.life.rounds() == 0 {
            assert_eq!(generate(&url, request(100)).await.unwrap().ids(), plain_text(&PROMPT, 100));
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asking).await.unwrap();
    let moved = rest(running).await.unwrap();
    assert_eq!(moved.completion.speculation.failovers, 1);
    assert!(plain_text(&PROMPT, 500).ends_with(&moved.ids()));
    eventually(|| draining.life.open() == 0).await;
}

#[tokio::test]
async fn a_verifier_that_says_it_takes_no_calls_gets_no_sequences_though_it_answers() {
    let (unready, toy) = (unready_verifier("toy").await, verifier("toy").await);
    let url = gateway(&[&unready, &toy], &[]).await;
    for session in 0..8 {
        generate_in_session(&url, &format!("session-{session}"), request(5)).await.unwrap();
    }
    assert_eq!(unready.life.rounds(), 0);
    assert_eq!(targets(&gateway(&[&unready], &[]).await).await, 0);
}

#[tokio::test]
async fn concurrent_sequences_spread_over_replicas_and_drafters() {
    let (one, two) = (verifier("toy").await, verifier("toy").await);
    let (small, other) = (drafter("small", None).await, drafter("other", None).await);
    let url = gateway(&[&one, &two], &[&small, &other]).await;
    let mut running = Vec::new();
    for _ in 0..6 {
        running.push(begin(&url, request(500)).await);
    }
    // All have the same prompt, so that they would rather be together.
    for toys in [[&one, &two], [&small, &other]] {
        let mut open = toys.map(|toy| toy.life.open());
        open.sort_unstable();
        assert!(open == [3, 3] || open == [2, 4], "{open:?}");
    }
    drop(running);
    eventually(|| one.life.open() + two.life.open() == 0).await;
}

#[tokio::test]
async fn requests_of_a_session_meet_at_one_replica_whatever_their_prompts() {
    let (one, two) = (verifier("toy").await, verifier("toy").await);
    let url = gateway(&[&one, &two], &[]).await;
    for first in 300..308 {
        let prompt = Prompt::Tokens(vec![1, first]);
        let asked = GenerationRequest { prompt, ..request(5) };
        generate_in_session(&url, "alice", asked).await.unwrap();
    }
    let rounds = [&one, &two].map(|toy| toy.life.rounds());
    assert!(rounds.contains(&0) && rounds != [0, 0], "{rounds:?}");
    ask_until(&url, || one.life.rounds() > 0 && two.life.rounds() > 0).await;
}
