//! What is drafted ahead, turn by turn.
#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;

use espalier_model::DraftModel;
use espalier_proto::{HiddenStates, Outcome};
use espalier_speculation::{Limits, Token, Tree};
use futures::FutureExt;
use proptest::prelude::*;

use super::*;
use crate::engine::testing::{Bench, edd, edd_beside, independent, outcome, sorted, states, text};

const LIMITS: Limits = Limits { max_nodes: usize::MAX, max_depth: 16 };

/// Tokens that may follow: more than any of these sequences comes to.
const REMAINING: usize = 1000;

fn sharer() -> Sharer {
    Sharer { target: "qwen3".into(), weight: NonZeroU32::MIN }
}

fn engine(bench: &Bench) -> Turns<'_> {
    Turns::new(&bench.model, Workspace::new(1), Arc::default())
}

/// Hands in the tree of a round.
fn ask(turns: &mut Turns<'_>, mut drafting: Box<Drafting>) -> oneshot::Receiver<Grown> {
    let (home, grown) = oneshot::channel();
    drafting.begin(LIMITS);
    turns.take(Job { drafting, sharer: sharer(), home, lent: None });
    grown
}

/// One round: the tree that is sent.
fn grow(turns: &mut Turns<'_>, drafting: Box<Drafting>) -> (Box<Drafting>, Proposed) {
    let mut grown = ask(turns, drafting);
    let home = std::iter::repeat_with(|| (grown.try_recv().ok(), turns.turn())).find_map(|(home, _)| home);
    let mut drafting = home.unwrap().unwrap();
    let proposed = drafting.finish().unwrap();
    (drafting, proposed)
}

/// Lends a sequence that has gone ahead.
fn lend(turns: &mut Turns<'_>, drafting: Box<Drafting>) -> Arc<Loan> {
    let loan = Arc::new(Loan::new(drafting, sharer()));
    turns.receive(Work::Ahead(Arc::downgrade(&loan)));
    loan
}

/// Has a sequence drafted ahead for so many turns, if there is room.
fn ahead(turns: &mut Turns<'_>, mut drafting: Box<Drafting>, count: usize) -> Box<Drafting> {
    if !drafting.go_ahead(REMAINING) {
        return drafting;
    }
    let loan = lend(turns, drafting);
    for _ in 0..count {
        turns.turn();
    }
    loan.take_back().now_or_never().unwrap().unwrap()
}

/// The nodes of `tree` that `tokens` lead to.
fn path_of(tree: &Tree, tokens: &[Token]) -> Vec<usize> {
    let step = |at: &mut usize, &token: &Token| {
        *at = tree.child_with(*at, token)?;
        Some(*at)
    };
    tokens.iter().scan(0, step).collect()
}

/// What becomes of a round.
#[derive(Debug, Clone, Copy)]
struct Fate {
    /// Turns for drafting ahead.
    turns: usize,
    /// So many of the tokens assumed come to be committed, before another one does.
    kept: usize,
}

fn any_fate() -> impl Strategy<Value = Fate> {
    (0..6_usize, prop_oneof![Just(usize::MAX), 0..4_usize]).prop_map(|(turns, kept)| Fate { turns, kept })
}

/// Two sequences of one text side by side, of which the first drafts ahead. Their trees must be the same; where positions
/// are known by states that come with outcomes, unless the round was begun before its own came. Gives how many were.
fn beside(model: DraftModel, policy: &str, fates: &[Fate]) -> usize {
    let by_states = model.kind().tapped_layer().is_some();
    let bench = Bench::new(model, None);
    let (mut turns, mut text, mut begun) = (engine(&bench), text(12), false);
    let states = |text: &[Token], known: usize| match by_states {
        true => states(&text[..text.len() - 1], known - 1),
        false => HiddenStates::new(0, 64),
    };
    let sequence = || {
        let mut drafting = bench.sequence_under(policy, &text[..1]);
        drafting.append(&outcome(&text, 1, crate::engine::testing::states(&text[..11], 0))).unwrap();
        drafting
    };
    let (mut one, mut other) = (sequence(), sequence());
    let mut hits = 0;
    for fate in fates {
        let (sent, expected);
        ((one, sent), (other, expected)) = (grow(&mut turns, one), grow(&mut turns, other));
        if !(begun && by_states) {
            assert_eq!(sent, expected, "{} tokens", text.len());
        }
        one = ahead(&mut turns, one, fate.turns);
        let mut tokens: Vec<Token> = one.assumed().iter().copied().take(fate.kept).collect();
        tokens.resize(tokens.len() + 20, 500);
        let tree = sent.tree.tree();
        tokens.truncate(path_of(tree, &tokens).len() + 1);
        let known = text.len();
        text.extend(&tokens);
        let outcome = outcome(&text, known, states(&text, known));
        one.apply(&Outcome { path: path_of(tree, &tokens), ..outcome.clone() }).unwrap();
        other.apply(&Outcome { path: path_of(expected.tree.tree(), &tokens[..tokens.len() - 1]), ..outcome }).unwrap();
        begun = one.is_begun();
        hits += usize::from(begun);
    }
    hits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn trees_are_those_of_who_waits_for_each_outcome(
        fates in proptest::collection::vec(any_fate(), 1..12),
        policy in prop_oneof![Just("eagle2,total=12,depth=3,k=3"), Just("constant,k=4"), Just("vanilla-tree,depth=2")],
    ) {
        for model in [independent(), sorted(&[1, 2, 4]), edd(), edd_beside()] {
            beside(model, policy, &fates);
        }
    }
}

#[test]
fn as_long_as_outcomes_are_as_assumed_trees_are_begun_ahead_and_rows_do_not_pile_up() {
    for model in [independent(), edd(), edd_beside()] {
        let fates = [Fate { turns: 9, kept: usize::MAX }; 60];
        let hits = beside(model, "vanilla-tree,depth=3,width=2", &fates);
        // Now and then a tree must wait for its outcome, for rows to be dropped.
        assert!((45..60).contains(&hits), "{hits}");
    }
}

#[test]
fn a_tree_that_is_asked_for_waits_for_nothing_that_is_drafted_ahead() {
    let bench = Bench::new(independent(), None);
    let mut turns = engine(&bench);
    let rows_of = |turns: &mut Turns<'_>, text: &[Token]| -> Vec<usize> {
        let mut grown = ask(turns, bench.sequence(text));
        std::iter::from_fn(|| grown.try_recv().is_err().then(|| turns.turn())).collect()
    };
    let (idle, asked) = (text(9), text(14));
    let (mut drafting, _) = grow(&mut turns, bench.sequence(&idle));
    assert!(drafting.go_ahead(REMAINING));
    let alone = rows_of(&mut turns, &[&asked[..], &[1]].concat());
    let loan = lend(&mut turns, drafting);
    assert_eq!(turns.turn(), 1, "nobody asks for a tree");
    assert_eq!(rows_of(&mut turns, &[&asked[..], &[2]].concat()), alone);
    assert!(turns.turn() > 0, "it goes on when nobody asks any more");
    drop(loan);
    assert_eq!(turns.turn(), 0);
}

#[test]
fn what_is_lent_comes_back_at_once_or_after_the_level_that_is_running() {
    let bench = Bench::new(independent(), None);
    let mut turns = engine(&bench);
    let (mut drafting, _) = grow(&mut turns, bench.sequence(&text(9)));
    assert!(drafting.go_ahead(REMAINING));
    let loan = lend(&mut turns, drafting);
    let running = loan.next().unwrap();
    let mut asked = Box::pin(loan.take_back());
    assert!(asked.as_mut().now_or_never().is_none());
    assert!(loan.next().is_none(), "no further level begins");
    turns.level(vec![running]).into_iter().for_each(|job| loan.ran(job));
    let drafting = asked.now_or_never().unwrap().unwrap();
    assert_eq!((turns.turn(), drafting.assumed().is_empty()), (0, false));
}

#[test]
fn nothing_is_drafted_ahead_where_it_could_be_of_no_use() {
    let bench = Bench::new(independent(), None);
    let mut turns = engine(&bench);
    let mut grown = |policy: &str| grow(&mut turns, bench.sequence_under(policy, &text(9))).0;
    assert!(grown("constant,k=3").go_ahead(6));
    assert!(!grown("constant,k=3").go_ahead(5), "the next round has room for the target's own token alone");
    for learns_alone in ["beta-ts", "cali-ts", "heuristic", "vanilla-tree,stop=beta-ts", "expected-gain,ratio=0.2"] {
        assert!(!grown(learns_alone).go_ahead(REMAINING), "{learns_alone}");
    }
    assert!(!bench.sequence(&text(9)).go_ahead(REMAINING), "no tree was sent");
}
