//! Targets that share one engine, turn by turn.
#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use espalier_model::{DeviceKind, DraftFolder, LoadOptions};
use espalier_proto::HiddenStates;
use espalier_speculation::{Limits, Token};

use super::*;
use crate::engine::share::PASS_ROWS;
use crate::engine::testing::{Bench, independent, outcome, target, text};
use crate::slots::Slots;
use crate::target_shares::TargetShares;

/// Eight rows a level.
const POLICY: &str = "eagle2,total=24,depth=4,k=8";

/// The most rows of a step here, those that read a prompt included.
const STEP_MAX: usize = PASS_ROWS;

fn share(target: &str, weight: u32) -> TargetShare {
    TargetShare { target: target.into(), weight: NonZeroU32::new(weight).unwrap() }
}

/// Whom rows are counted to.
struct Who {
    share: TargetShare,
    sequence: SequenceNumber,
}

fn who(sequence: SequenceNumber) -> Who {
    Who { share: share("a", 1), sequence }
}

/// A sequence whose trees are verified in no time: as soon as one is grown, the next begins.
struct Client {
    who: Who,
    text: Vec<Token>,
    grown: oneshot::Receiver<Grown>,
    rounds: usize,
}

/// An engine with its clients.
struct Sharing<'a> {
    bench: &'a Bench,
    turns: Turns<'a>,
    clients: Vec<Client>,
}

impl<'a> Sharing<'a> {
    fn new(bench: &'a Bench) -> Self {
        Self {
            bench,
            turns: Turns::new(&bench.model, Workspace::new(1), Arc::default(), Arc::default()),
            clients: Vec::new(),
        }
    }

    /// Begins sequences of as many tokens as are given.
    fn join(&mut self, share: &TargetShare, lengths: impl IntoIterator<Item = usize>) {
        for tokens in lengths {
            let text = text(tokens);
            let drafting = self.bench.sequence_under(POLICY, &text);
            let who = Who { share: share.clone(), sequence: self.clients.len() as SequenceNumber };
            let grown = begin(&mut self.turns, &who, drafting);
            self.clients.push(Client { who, text, grown, rounds: 0 });
        }
    }

    /// Takes a turn, begins the rounds that may follow, and gives the rows that were run.
    fn turn(&mut self) -> usize {
        let rows = self.turns.turn();
        for client in &mut self.clients {
            let Ok(grown) = client.grown.try_recv() else { continue };
            let (mut drafting, known) = (grown.unwrap(), client.text.len());
            drafting.finish().unwrap();
            client.text.push(known as Token * 31 % 487 + 3);
            drafting.commit(&outcome(&client.text, known, HiddenStates::new(0, 64)), None).unwrap();
            client.grown = begin(&mut self.turns, &client.who, drafting);
            client.rounds += 1;
        }
        rows
    }

    /// The turns and rows that each of the next rounds of the first client takes, and the time of all.
    fn rounds(&mut self, count: usize) -> (Vec<usize>, Vec<usize>, Duration) {
        let (mut turns, mut rows, begun) = (Vec::new(), Vec::new(), Instant::now());
        for _ in 0..count {
            let ended = self.clients[0].rounds + 1;
            let ran: Vec<usize> =
                std::iter::from_fn(|| (self.clients[0].rounds < ended).then(|| self.turn())).collect();
            turns.push(ran.len());
            rows.extend(ran);
        }
        (turns, rows, begun.elapsed())
    }
}

fn begin(turns: &mut Turns<'_>, who: &Who, mut drafting: Box<Drafting>) -> oneshot::Receiver<Grown> {
    let (home, grown) = oneshot::channel();
    drafting.begin(Limits { max_nodes: 64, max_depth: 16 });
    turns.take(GrowRequest {
        drafting,
        share: who.share.clone(),
        sequence: who.sequence,
        home,
        _growing: Gauge::default().enter(),
    });
    grown
}

#[test]
fn a_sequence_beside_32_of_another_target_waits_for_one_turn_at_most_and_its_turns_are_short() {
    const ROUNDS: usize = 8;
    // Two, so that neither finds what the other has read.
    let benches = [(); 2].map(|()| Bench::new(independent(), None));
    let mut alone = Sharing::new(&benches[0]);
    alone.join(&share("lone", 1), [100]);
    let (turns_alone, _, took_alone) = alone.rounds(ROUNDS);

    let mut beside = Sharing::new(&benches[1]);
    beside.join(&share("lone", 1), [100]);
    // Some have read their prompts when others begin.
    beside.join(&share("busy", 1), (0..32).map(|i| 40 + 10 * i));
    let (turns, rows, took) = beside.rounds(ROUNDS);
    // Its prompt may take one turn more to read; no later round does.
    assert!(turns[0] <= turns_alone[0] + 1 && turns[1..] == turns_alone[1..], "{turns:?} {turns_alone:?}");
    assert!(rows.iter().all(|&rows| (PASS_ROWS..PASS_ROWS + STEP_MAX).contains(&rows)), "{rows:?}");
    println!("{ROUNDS} rounds took {took_alone:?} alone and {took:?} beside 32 sequences of another target");
}

#[test]
fn targets_draft_as_their_weights_are_and_each_of_their_sequences_comes_on() {
    let bench = Bench::new(independent(), None);
    let mut sharing = Sharing::new(&bench);
    sharing.join(&share("heavy", 3), [9; 12]);
    sharing.join(&share("light", 1), [9; 36]);
    for _ in 0..400 {
        sharing.turn();
    }
    let rounds: Vec<usize> = sharing.clients.iter().map(|client| client.rounds).collect();
    let (heavy, light) = rounds.split_at(12);
    let ratio = heavy.iter().sum::<usize>() as f64 / light.iter().sum::<usize>() as f64;
    assert!((2.8..3.2).contains(&ratio), "{rounds:?}");
    for rounds in [heavy, light] {
        assert!(rounds.iter().max().unwrap() - rounds.iter().min().unwrap() <= 1, "{rounds:?}");
    }
}

#[test]
fn who_comes_is_told_what_waits_beyond_the_next_pass() {
    let bench = Bench::new(independent(), None);
    let mut sharing = Sharing::new(&bench);
    let left = Arc::clone(&sharing.turns.left);
    sharing.join(&share("a", 1), [PASS_ROWS; 3]);
    sharing.turn();
    assert_eq!(left.load(Ordering::Relaxed), 2 * PASS_ROWS);
    while sharing.turns.turn() > 0 {}
    assert_eq!(left.load(Ordering::Relaxed), 0);
}

#[test]
fn a_token_that_the_drafter_does_not_have_fails_its_own_sequence_alone() {
    let bench = Bench::new(independent(), None);
    let vocab = bench.model.decoder().config().vocab;
    let mut turns = Turns::new(&bench.model, Workspace::new(1), Arc::default(), Arc::default());
    let known = text(20);
    let foreign = [&known[..], &[vocab as Token]].concat();
    let mut others = begin(&mut turns, &who(1), bench.sequence_under(POLICY, &known));
    let mut own = begin(&mut turns, &who(2), bench.sequence_under(POLICY, &foreign));
    while turns.turn() > 0 {}
    let refusal = own.try_recv().unwrap().err().unwrap().to_string();
    assert_eq!(refusal, format!("token {vocab} is beyond the {vocab} tokens of the drafter"));
    assert!(others.try_recv().unwrap().is_ok());
}

#[test]
fn who_shares_a_level_that_fails_is_told_why() {
    let bench = Bench::new(independent(), None);
    let mut turns = Turns::new(&bench.model, Workspace::new(1), Arc::default(), Arc::default());
    let mut elsewhere = bench.sequence_under(POLICY, &text(20));
    // It cannot reach keys and values on another device.
    let on_device = LoadOptions { device: DeviceKind::Candle, ..LoadOptions::default() };
    let folders = DraftFolder { dir: &target(), target: None };
    elsewhere.cache = DraftModel::open_with_progress(folders, &on_device, |_, _| {}).unwrap().decoder().new_cache();
    let mut grown = begin(&mut turns, &who(3), elsewhere);
    turns.turn();
    let refusal = grown.try_recv().unwrap().err().unwrap().to_string();
    assert_eq!(refusal, "a draft level failed: a cache has its keys and values on another device than the model");
}

#[tokio::test]
async fn an_engine_that_lost_its_model_says_why_and_stops() {
    let on_device = LoadOptions { device: DeviceKind::Candle, ..LoadOptions::default() };
    let folders = DraftFolder { dir: &target(), target: None };
    let model = Arc::new(DraftModel::open_with_progress(folders, &on_device, |_, _| {}).unwrap());
    let bench = Bench::new(independent(), None);
    let engine = Engine::start(model, Workspace::new(1), Workplace::default()).unwrap();
    assert_eq!(engine.fault(), None);
    let slot = Slots::new(1, TargetShares::default()).admit("qwen3").unwrap();
    let mut drafting = bench.sequence_under(POLICY, &text(20));
    drafting.begin(Limits { max_nodes: 64, max_depth: 16 });
    let fault = engine.sequence(slot).grow(drafting).await.err().unwrap();
    engine.stopped().await;
    let sentence =
        "rank 0 of 1 on device candle failed: a cache has its keys and values on another device than the model";
    assert_eq!(engine.fault().unwrap(), sentence);
    assert_eq!(fault.to_string(), format!("a draft level failed: {sentence}"));
}

#[test]
fn nothing_is_computed_for_a_caller_that_has_gone() {
    let bench = Bench::new(independent(), None);
    let mut sharing = Sharing::new(&bench);
    sharing.join(&share("a", 1), [20, 30]);
    drop(sharing.clients.remove(0));
    assert_eq!(sharing.turn(), 30);
    drop(sharing.clients.remove(0));
    assert_eq!((sharing.turn(), sharing.turns.ready.len()), (0, 0));
}
