//! A whole system in simulated time: gateways, drafters and verifiers of the shipped code, with real models, on a network
//! and a clock that a seed decides.
//!
//! Services are killed and started again, stopped, cut off from all others or from one, and messages take as long as the
//! seed says. Whatever happens, every answer has to be the right one, nothing may panic, and when all is over nothing may
//! be held any more. `just simulate SEEDS` tries as many seeds as one likes; `just simulate 1 SEED` repeats one.

#![allow(clippy::unwrap_used)]

mod client;
mod fault;
mod held;
mod machines;
mod network;
mod panics;
mod questions;
mod story;
mod suffering;
mod world;

use std::time::Instant;

use crate::questions::shared;
use crate::world::unfold;

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 5;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, which is no number")))
}

#[test]
fn every_answer_is_right_whatever_fails() {
    let first = number("ESPALIER_SIMULATE_FROM").unwrap_or(0);
    let count = number("ESPALIER_SIMULATE_SEEDS").unwrap_or(SEEDS);
    let (questions, begun) = (shared(), Instant::now());
    let mut wrong = Vec::new();
    for seed in first..first + count {
        let told = unfold(seed, questions);
        if count == 1 || told.all_well.is_err() {
            eprintln!("seed {seed}:\n{}", told.story.join("\n"));
        }
        if let Err(why) = told.all_well {
            eprintln!("seed {seed} went wrong: {why}");
            wrong.push(seed);
        }
        if count > SEEDS && (seed - first) % 50 == 49 {
            eprintln!("{} of {count} seeds in {:.0?}, {} went wrong", seed - first + 1, begun.elapsed(), wrong.len());
        }
    }
    assert!(wrong.is_empty(), "these seeds went wrong: {wrong:?}");
}

#[test]
fn an_answer_that_is_not_right_is_noticed() {
    let mut questions = shared().to_vec();
    let last = questions.len() - 1;
    let right = questions[last].right.clone();
    questions.iter_mut().for_each(|question| question.right = right.clone());
    let why = unfold(0, &questions).all_well.unwrap_err();
    assert!(why.contains(" instead of Said"), "{why}");
}

/// Only where tokio, too, takes its random numbers from the seed (`--cfg tokio_unstable`): which of several tasks that wait
/// for the same it wakes first, say. What still goes by the machine's clock is the date of each answer, and when HTTP/2
/// forgets a stream that was reset: a story may be another for that, so there is a third time for it.
#[cfg(tokio_unstable)]
#[test]
fn a_seed_tells_the_same_story_each_time() {
    let questions = shared();
    for seed in 0..SEEDS {
        let mut stories = std::iter::repeat_with(|| unfold(seed, questions).story);
        let [once, again] = [(); 2].map(|()| stories.next().unwrap());
        assert!(once.len() > 20, "nothing happened: {once:?}");
        if once != again {
            let third = stories.next().unwrap();
            assert!(third == once || third == again, "seed {seed}:\n{once:#?}\n{again:#?}\n{third:#?}");
        }
    }
}
