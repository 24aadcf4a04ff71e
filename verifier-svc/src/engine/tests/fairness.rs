//! Who runs when not all can: nobody has more rows than others because its trees or its prompt are large.

use espalier_proto::{Open, SequenceSpec};
use espalier_speculation::{Penalties, Sampling, Shaping, Tree};

use super::{Bench, Stream, TREE, open, text};

/// A tree of so many nodes below the root.
fn tree(nodes: usize) -> Tree {
    let mut tree = Tree::new();
    for node in 0..nodes {
        tree.push(0, 3 + node as u32, 0.5).unwrap();
    }
    tree
}

/// A sequence that no token ends.
fn endless(bench: &Bench, open: Open) -> Open {
    let ends = bench.loaded.decoder.config().eos.iter().map(|&token| (token, -100.0));
    let sampling = Sampling::greedy().with_shaping(Shaping::new(Penalties::default(), ends).unwrap());
    Open { sequence: SequenceSpec { sampling, ..open.sequence }, ..open }
}

/// A sequence that hands in its next tree as soon as the last is answered.
struct Eager {
    stream: Stream,
    nodes: usize,
    rounds: usize,
}

impl Eager {
    fn begin(bench: &mut Bench, id: u128, nodes: usize) -> Self {
        // Different from their first tokens on.
        let mut stream = bench.open(endless(bench, open(id, &text(40 + id as usize)[id as usize..], 60)));
        stream.reused();
        bench.submit(&mut stream, tree(nodes));
        Self { stream, nodes, rounds: 0 }
    }

    fn go_on(&mut self, bench: &mut Bench) {
        if self.stream.replies.is_empty() {
            return;
        }
        assert_eq!(self.stream.outcome().finish, None);
        self.rounds += 1;
        bench.submit(&mut self.stream, tree(self.nodes));
    }
}

fn turn(bench: &mut Bench, sequences: &mut [Eager]) {
    bench.turn();
    sequences.iter_mut().for_each(|sequence| sequence.go_on(bench));
}

/// Large trees, of which not all fit into a turn, that are past their prompts.
fn crowd(bench: &mut Bench) -> Vec<Eager> {
    let mut sequences: Vec<Eager> = (0..40).map(|id| Eager::begin(bench, id, TREE)).collect();
    while sequences.iter().any(|sequence| sequence.rounds == 0) {
        turn(bench, &mut sequences);
    }
    sequences
}

#[test]
fn small_trees_are_in_nearly_every_turn_beside_large_ones_that_do_not_all_fit() {
    let mut bench = Bench::new(256);
    let mut sequences = crowd(&mut bench);
    sequences.extend((40..60).map(|id| Eager::begin(&mut bench, id, 0)));
    while sequences.iter().any(|sequence| sequence.rounds == 0) {
        turn(&mut bench, &mut sequences);
    }
    sequences.iter_mut().for_each(|sequence| sequence.rounds = 0);
    for _ in 0..10 {
        turn(&mut bench, &mut sequences);
    }
    let rounds: Vec<usize> = sequences.iter().map(|sequence| sequence.rounds).collect();
    let (large, small) = rounds.split_at(40);
    // Large ones that were behind may be served before them once.
    assert!(small.iter().all(|rounds| *rounds >= 9), "{rounds:?}");
    let (most, least) = (large.iter().max().unwrap(), large.iter().min().unwrap());
    assert!(*least >= 4 && most - least <= 1, "{rounds:?}");
}

#[test]
fn a_short_prompt_is_not_read_after_all_long_ones_that_came_before() {
    let mut bench = Bench::new(64);
    let long: Vec<Stream> = (0..5).map(|id| bench.open(open(id, &text(400 + id as usize)[id as usize..], 4))).collect();
    let mut short = bench.open(open(9, &text(60)[40..], 4));
    short.reused();
    bench.submit(&mut short, Tree::new());
    bench.turn();
    bench.turn();
    assert_eq!(short.outcome().round, 0);
    assert_eq!(long.len(), 5);
}

#[test]
fn of_prompts_that_are_equal_the_oldest_is_not_kept_waiting_by_others() {
    let mut bench = Bench::new(64);
    let mut streams: Vec<Stream> =
        (0..8).map(|id| bench.open(open(id, &text(100 + id as usize)[id as usize..], 4))).collect();
    for stream in &mut streams {
        stream.reused();
        bench.submit(stream, Tree::new());
    }
    let mut answered = [0; 8];
    for turn in 1..=4 {
        bench.turn();
        for (stream, answered) in streams.iter().zip(&mut answered) {
            if *answered == 0 && !stream.replies.is_empty() {
                *answered = turn;
            }
        }
    }
    // 256 rows of prompts a turn.
    assert_eq!(answered, [1, 1, 2, 2, 2, 3, 3, 4]);
}

#[test]
fn rounds_that_fill_every_turn_keep_no_prompt_from_being_read() {
    let mut bench = Bench::new(256);
    let mut sequences = crowd(&mut bench);
    sequences.push(Eager::begin(&mut bench, 50, TREE));
    for _ in 0..4 {
        turn(&mut bench, &mut sequences);
    }
    assert!(sequences[40].rounds > 0);
}
