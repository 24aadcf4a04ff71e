//! Addresses that never answer, several of them, beside good ones.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::support::*;
use espalier_gateway::Config;

/// What is silent is known after so much time, and a little.
const KNOWN_MAX: Duration = Duration::from_millis(1500);

async fn black_holes() -> Vec<BlackHole> {
    let mut holes = Vec::new();
    for _ in 0..2 {
        holes.push(BlackHole::silent().await);
        holes.push(BlackHole::swallowing().await);
    }
    holes
}

fn beside(holes: &[BlackHole], good: &Toy) -> Vec<String> {
    holes.iter().map(|hole| hole.url.clone()).chain([good.url.clone()]).collect()
}

#[tokio::test]
async fn several_hold_up_the_start_as_long_as_one_and_a_text_not_at_all() {
    let (toy, small) = (verifier("toy").await, drafter("small", None).await);
    let (verifiers, drafters) = (black_holes().await, black_holes().await);
    let begun = Instant::now();
    let url = start(Config::new(&beside(&verifiers, &toy), &beside(&drafters, &small)).unwrap()).await;
    let started = begun.elapsed();
    let answer = generate(&url, request(50)).await.unwrap();
    let answered = begun.elapsed() - started;
    assert_eq!((answer.ids(), answer.completion.speculation.failovers), (plain_text(&PROMPT, 50), 0));
    println!("beside four black holes of each kind: started within {started:?}, answered within {answered:?}");
    assert!(started < KNOWN_MAX && answered < KNOWN_MAX, "{started:?}, {answered:?}");
    assert!(small.life.rounds.load(Ordering::SeqCst) > 0);
}
