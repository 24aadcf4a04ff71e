//! What rounds answer: credit, trees after it, hidden states that may wait, and the time that prompts took beside them.

use std::time::Duration;

use espalier_proto::{HiddenStates, Open, Outcome, SequenceSpec, Tap};
use espalier_speculation::{Sampling, Token, Tree};

use super::{Bench, open, text};

#[test]
fn with_credit_a_sequence_is_in_every_pass_and_each_token_is_told_at_once() {
    let mut bench = Bench::new(32);
    let prompt = text(40);
    let wanted = |id| Open {
        sequence: SequenceSpec {
            logprobs: Some(1),
            sampling: Sampling::new(0.9, 0, 1.0, 5).unwrap(),
            ..open(id, &prompt, 10).sequence
        },
        tap: Some(Tap { layer: 2, width: 64 }),
    };
    let mut single = bench.open(wanted(1));
    assert_eq!(single.reused(), 0);
    let rounds: Vec<Outcome> = (0..10).map(|_| bench.round(&mut single, Tree::new())).collect();

    let mut credited = bench.open(wanted(2));
    assert_eq!(credited.reused(), 39);
    bench.credit(&mut credited, 3, false);
    bench.credit(&mut credited, 16, false);
    for expected in &rounds {
        bench.turn();
        let outcome = credited.outcome();
        let (found, expected) = ((outcome.round, outcome.path, outcome.tokens), expected);
        assert_eq!(found, (expected.round, vec![], expected.tokens.clone()));
        assert_eq!((outcome.logprobs, outcome.finish), (expected.logprobs.clone(), expected.finish));
        assert_eq!(outcome.states, expected.states);
    }
    assert!(bench.is_idle() && !bench.sequences.have_work(), "what is left of credit goes with its sequence");
}

#[test]
fn each_outcome_tells_of_the_time_that_prompts_took_since_the_one_before() {
    let mut bench = Bench::new(32);
    let mut first = bench.open(open(1, &text(40), 6));
    assert_eq!(first.reused(), 0);
    assert!(bench.round(&mut first, Tree::new()).prompts > Duration::ZERO, "its own");
    assert_eq!(bench.round(&mut first, Tree::new()).prompts, Duration::ZERO);
    let mut other = bench.open(open(2, &text(90)[50..], 6));
    assert_eq!(other.reused(), 0);
    bench.run();
    let (spent, own) = (bench.round(&mut first, Tree::new()).prompts, bench.round(&mut other, Tree::new()).prompts);
    assert!(spent > Duration::ZERO && spent == own, "that of the other: {spent:?} {own:?}");
    assert_eq!(bench.round(&mut first, Tree::new()).prompts, Duration::ZERO);
}

#[test]
fn a_tree_may_follow_credit() {
    let mut bench = Bench::new(32);
    let mut plain = bench.open(open(1, &text(40), 6));
    assert_eq!(plain.reused(), 0);
    let expected = bench.finish(&mut plain);
    let mut stream = bench.open(open(2, &text(40), 6));
    assert_eq!(stream.reused(), 39);
    bench.credit(&mut stream, 2, true);
    let mut tree = Tree::new();
    tree.push(0, expected[2], 0.5).unwrap();
    bench.submit(&mut stream, tree);
    bench.run();
    let outcomes: Vec<Outcome> = (0..3).map(|_| stream.outcome()).collect();
    let tokens: Vec<Token> = outcomes.iter().flat_map(|outcome| outcome.tokens.clone()).collect();
    assert_eq!((outcomes[2].path.clone(), tokens), (vec![1], expected[..4].to_vec()));
}

#[test]
fn states_wait_for_the_first_outcome_that_wants_them() {
    let mut bench = Bench::new(32);
    let prompt = text(40);
    let wanted = |id| Open { tap: Some(Tap { layer: 2, width: 64 }), ..open(id, &prompt, 5) };
    let mut all = bench.open(wanted(1));
    assert_eq!(all.reused(), 0);
    let mut expected = HiddenStates::new(0, 64);
    (0..3).for_each(|_| expected.append(bench.round(&mut all, Tree::new()).states.unwrap()).unwrap());

    let mut late = bench.open(wanted(2));
    assert_eq!(late.reused(), 0);
    bench.credit(&mut late, 2, true);
    bench.credit(&mut late, 1, false);
    bench.run();
    let states: Vec<Option<HiddenStates>> = (0..3).map(|_| late.outcome().states).collect();
    assert_eq!(states, [None, None, Some(expected)]);
}
