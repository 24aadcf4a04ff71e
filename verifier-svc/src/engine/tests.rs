//! Memory for keys and values: who gets some, who shares it, and that all of it comes back. The engine's turns are run
//! by hand.
#![allow(clippy::unwrap_used)]

mod fairness;
mod lost;
mod rounds;

use std::path::Path;
use std::sync::Arc;

use espalier_model::{BlockCounts, Checkpoint, Decoder, LoadOptions, PoolFault, Workspace};
use espalier_proto::{Credit, NumberedTree, Open, Outcome, SequenceId, SequenceSpec, Submission, Tap, VerifierEvent};
use espalier_service_kit::Workplace;
use espalier_speculation::{CandidateTree, Curve, Token, Tree};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::batch;
use super::command::{Command, Key, Loaded, Opening, REPLIES_MAX, Reply, Submitted};
use super::sequences::Sequences;
use crate::admission::Admission;
use crate::counts::Counts;
use crate::error::VerifierError;

/// The largest tree, in nodes.
const TREE: usize = 20;

/// An engine without a thread.
struct Bench {
    loaded: Loaded,
    sequences: Sequences,
    admission: Admission,
    keys: Key,
}

/// A sequence that was opened.
struct Stream {
    key: Key,
    replies: mpsc::Receiver<Reply>,
    rounds: u64,
}

impl Stream {
    fn reply(&mut self) -> Reply {
        self.replies.try_recv().unwrap()
    }

    /// How much of the prompt was there already.
    fn reused(&mut self) -> usize {
        match self.reply().unwrap() {
            VerifierEvent::Opened { reused_prefix } => reused_prefix,
            other => panic!("{other:?} came first"),
        }
    }

    fn outcome(&mut self) -> Outcome {
        match self.reply().unwrap() {
            VerifierEvent::Outcome(outcome) => outcome,
            other => panic!("{other:?} came where an outcome was due"),
        }
    }
}

impl Bench {
    /// With memory for so many blocks.
    fn new(blocks: usize) -> Self {
        let decoder = decoder(&LoadOptions::default());
        let block = decoder.block_pool(decoder.context_bytes()).unwrap().block_bytes();
        let blocks = decoder.block_pool(blocks * block).unwrap();
        let loaded = Loaded {
            decoder: Arc::new(decoder),
            work: Workspace::new(1),
            costs: Curve::line(0.0, 1.0),
            blocks,
            tree_nodes_max: TREE,
            counts: Counts::default(),
            workplace: Workplace::default(),
        };
        Self { sequences: Sequences::new(&loaded), loaded, admission: Admission::new(64), keys: 0 }
    }

    fn open(&mut self, open: Open) -> Stream {
        let (sender, replies) = mpsc::channel(REPLIES_MAX);
        self.keys += 1;
        let slot = self.admission.admit(&open.sequence.id).unwrap();
        let opening = Opening { open, restriction: None, replies: sender, slot };
        self.sequences.take(Command::Open(self.keys, Box::new(opening)));
        Stream { key: self.keys, replies, rounds: 0 }
    }

    fn submit(&mut self, stream: &mut Stream, tree: Tree) {
        let tree = CandidateTree::from(tree);
        self.hand_in(stream, Submission::Tree(NumberedTree { round: stream.rounds, tree }));
    }

    fn credit(&mut self, stream: &mut Stream, tokens: usize, states_later: bool) {
        self.hand_in(stream, Submission::Credit(Credit { round: stream.rounds, tokens, states_later }));
    }

    fn hand_in(&mut self, stream: &mut Stream, submission: Submission) {
        stream.rounds += submission.rounds() as u64;
        let submitted = Submitted { submission, arrived: Instant::now(), waiting: None };
        self.sequences.take(Command::Submit(stream.key, submitted));
    }

    /// Runs all that waits.
    fn run(&mut self) {
        while self.sequences.have_work() {
            self.turn();
        }
    }

    fn turn(&mut self) {
        batch::turn(&self.loaded.decoder, &mut self.loaded.work, &mut self.sequences).unwrap();
    }

    /// The outcome of a tree.
    fn round(&mut self, stream: &mut Stream, tree: Tree) -> Outcome {
        self.submit(stream, tree);
        self.run();
        stream.outcome()
    }

    /// Plain decoding until the sequence ends.
    fn finish(&mut self, stream: &mut Stream) -> Vec<Token> {
        let mut text = Vec::new();
        loop {
            let outcome = self.round(stream, Tree::new());
            text.extend(outcome.tokens);
            if outcome.finish.is_some() {
                return text;
            }
        }
    }

    fn close(&mut self, stream: &Stream) {
        self.sequences.take(Command::Close(stream.key));
    }

    fn counts(&self) -> BlockCounts {
        self.loaded.blocks.counts()
    }

    /// Everything has come back.
    fn is_idle(&self) -> bool {
        (self.counts().held, self.counts().promised) == (0, 0)
    }
}

fn decoder(options: &LoadOptions) -> Decoder {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/model/tests/golden/qwen3");
    Decoder::load(&Checkpoint::open(folder).unwrap(), options).unwrap()
}

fn open(id: u128, committed: &[Token], max_tokens: usize) -> Open {
    Open { sequence: SequenceSpec::new(SequenceId::from(id), committed.to_vec(), max_tokens), tap: None }
}

/// A text of so many tokens.
fn text(tokens: usize) -> Vec<Token> {
    (0..tokens as Token).map(|i| i * i * 7 % 491 + 3).collect()
}

#[test]
fn what_one_tenant_has_asked_is_not_told_to_another() {
    let (mut bench, prompt) = (Bench::new(32), text(200));
    let of_tenant = |id, tenant, tap| {
        let Open { sequence, .. } = open(id, &prompt, 4);
        Open { sequence: SequenceSpec { tenant, ..sequence }, tap }
    };
    for tap in [None, Some(Tap { layer: 2, width: 64 })] {
        let first = bench.open(of_tenant(1, 1, tap));
        bench.run();
        bench.close(&first);
        for (tenant, reused) in [(2, 0), (1, 199)] {
            let mut again = bench.open(of_tenant(2, tenant, tap));
            assert_eq!(again.reused(), reused, "{tap:?}");
            bench.close(&again);
        }
    }
}

#[test]
fn sequences_that_begin_alike_share_blocks_and_say_the_same() {
    let mut bench = Bench::new(32);
    let prompt = text(200);
    let mut first = bench.open(open(1, &prompt, 40));
    assert_eq!(first.reused(), 0);
    bench.run();
    // 200 + 40 positions and a tree need five blocks; three are full, and the root waits in the fourth.
    assert_eq!(bench.counts(), BlockCounts { total: 32, held: 4, promised: 1, lingering: 0 });

    let mut second = bench.open(open(2, &prompt, 40));
    assert_eq!(second.reused(), 192);
    bench.run();
    assert_eq!(bench.counts(), BlockCounts { total: 32, held: 5, promised: 2, lingering: 0 });

    let answer = bench.finish(&mut first);
    assert_eq!(bench.finish(&mut second), answer);
    assert!(bench.is_idle());

    // What has ended can be taken up where it ended, and a new turn of a conversation goes on from there.
    let turn = [&prompt[..], &answer, &text(30)].concat();
    let mut third = bench.open(open(3, &turn, 5));
    assert_eq!(third.reused(), prompt.len() + answer.len() - 1);
    let mut alone = Bench::new(32);
    let mut expected = alone.open(open(3, &turn, 5));
    assert_eq!(expected.reused(), 0);
    assert_eq!(bench.finish(&mut third), alone.finish(&mut expected));
}

#[test]
fn a_tree_is_run_with_the_last_of_the_prompt_before_it() {
    let mut bench = Bench::new(32);
    let wanted = |id| Open { tap: Some(Tap { layer: 2, width: 64 }), ..open(id, &text(300), 4) };
    let mut before = bench.open(wanted(1));
    assert_eq!(before.reused(), 0);
    bench.run();
    let expected = bench.finish(&mut before);

    let mut bench = Bench::new(32);
    let mut together = bench.open(wanted(2));
    assert_eq!(together.reused(), 0);
    let mut tree = Tree::new();
    let right = tree.push(0, expected[0], 0.5).unwrap();
    tree.push(0, 7, 0.25).unwrap();
    tree.push(right, expected[1], 0.5).unwrap();
    bench.submit(&mut together, tree);
    bench.turn();
    assert!(together.replies.is_empty(), "the prompt takes two passes");
    bench.turn();
    let outcome = together.outcome();
    assert_eq!((outcome.path, outcome.tokens), (vec![1, 3], expected[..3].to_vec()));
    assert_eq!(outcome.states.unwrap().rows(), 302);
    assert_eq!(bench.finish(&mut together), expected[3..]);
}

#[test]
fn the_root_is_run_even_if_all_of_the_text_is_known() {
    let mut bench = Bench::new(32);
    let prompt = text(128);
    let mut first = bench.open(open(1, &[&prompt[..], &[5]].concat(), 4));
    bench.run();
    bench.close(&first);
    let mut again = bench.open(open(2, &prompt, 4));
    assert_eq!((first.reused(), again.reused()), (0, 127));
    assert_eq!(bench.finish(&mut again).len(), 4);
}

#[test]
fn where_states_are_wanted_only_what_they_are_known_of_is_reused() {
    let prompt = text(150);
    let wanted = |id, prompt: &[Token]| Open { tap: Some(Tap { layer: 2, width: 64 }), ..open(id, prompt, 4) };
    let mut alone = Bench::new(32);
    let mut stream = alone.open(wanted(1, &prompt));
    assert_eq!(stream.reused(), 0);
    let expected = alone.round(&mut stream, Tree::new());

    let mut bench = Bench::new(32);
    let mut first = bench.open(open(1, &prompt, 4));
    assert_eq!(first.reused(), 0);
    bench.finish(&mut first);
    let begun = [&prompt[..100], &[9, 9, 9]].concat();
    for (id, prompt, reused) in [(2, &begun, 0), (3, &prompt, 100), (4, &prompt, 149)] {
        let mut tapped = bench.open(wanted(id, prompt));
        assert_eq!(tapped.reused(), reused);
        let found = bench.round(&mut tapped, Tree::new());
        if id > 2 {
            assert_eq!((found.states, found.tokens), (expected.states.clone(), expected.tokens.clone()));
        }
    }
}

#[test]
fn who_finds_no_memory_is_refused_before_anything_is_computed() {
    let mut bench = Bench::new(8);
    let held = bench.open(open(1, &text(200), 37));
    // 300 + 1 positions and a tree.
    let mut refused = bench.open(open(2, &text(300), 1));
    let full = PoolFault::Full { needed: 5, free: 4, total: 8 };
    assert_eq!(refused.reply(), Err(VerifierError::Memory(full)));
    let mut small = Bench::new(5);
    let mut hopeless = small.open(open(3, &text(300), 1));
    assert!(hopeless.reused() == 0 && small.counts().promised == 5);
    let mut hopeless = small.open(open(4, &text(301), 1));
    let never = PoolFault::TooSmall { needed: 6, total: 5 };
    assert_eq!(hopeless.reply(), Err(VerifierError::Memory(never)));

    // Prefixes that linger make room.
    bench.run();
    bench.close(&held);
    assert!(bench.is_idle() && bench.counts().lingering > 3);
    let mut fits = bench.open(open(2, &[&[9], &text(399)[..]].concat(), 30));
    assert_eq!(fits.reused(), 0);
    assert!(!bench.finish(&mut fits).is_empty());
}

#[test]
fn whoever_is_admitted_can_finish_however_large_its_trees_are() {
    let mut bench = Bench::new(9);
    let mut streams: Vec<Stream> = Vec::new();
    for id in 0..9 {
        let mut stream = bench.open(open(id, &text(100 + id as usize)[id as usize..], 50));
        match stream.reply() {
            Ok(_) => streams.push(stream),
            Err(fault) => assert!(matches!(fault, VerifierError::Memory(PoolFault::Full { .. }))),
        }
    }
    assert_eq!((streams.len(), bench.counts().promised), (3, 9));
    let largest = || {
        let mut tree = Tree::new();
        for node in 0..TREE {
            tree.push(node, 1, 0.5).unwrap();
        }
        tree
    };
    while !streams.is_empty() {
        streams.iter_mut().for_each(|stream| bench.submit(stream, largest()));
        bench.run();
        streams.retain_mut(|stream| stream.outcome().finish.is_none());
    }
    assert!(bench.is_idle());
}

#[test]
fn however_a_sequence_ends_its_memory_comes_back() {
    let mut bench = Bench::new(32);
    let prompt = text(100);
    let (mut closed, mut again) = (bench.open(open(1, &prompt, 20)), bench.open(open(2, &prompt[1..], 20)));
    let (left, unread) = (bench.open(open(3, &prompt[2..], 20)), bench.open(open(4, &prompt[3..], 20)));
    bench.close(&unread);
    bench.run();
    assert_eq!((closed.reused(), again.reused()), (0, 0));
    bench.round(&mut closed, Tree::new());
    bench.close(&closed);
    // Nobody waits for its outcomes any more.
    drop(left);
    bench.turn();
    let mut taken = bench.open(open(2, &prompt[1..], 20));
    assert_eq!(taken.reused(), 98);
    assert_eq!(again.reply(), Err(VerifierError::TakenOver { sequence: SequenceId::from(2) }));
    assert_eq!(bench.counts().held + bench.counts().promised, 3);
    assert_eq!(bench.finish(&mut taken).len(), 20);
    assert!(bench.is_idle());
    // Of three texts a full block and what follows it; of the one that went on, the end that it had before as well.
    assert_eq!(bench.counts().lingering, 3 * 2 + 1);
}
