//! A verifier over real gRPC, with a real model.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use espalier_model::{Checkpoint, Decoder, Depth, LoadOptions, Logits, Row, Segment, Team, Workspace, fingerprint};
use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{
    Credit, DrafterEvent, Fault, FaultKind, Grant, HiddenStates, NumberedTree, Open, Party, SequenceId, SequenceSpec,
    Submission, Tap, TokenizerCollector, VerifierCard, pb,
};
use espalier_round::{
    Driver, EVENTS_MAX, Event, Feedback, Grants, Ngram, Plain, Proposed, Proposer, RemoteVerifier, Sequence, Verifier,
};
use espalier_service_kit::{bind, channel};
use espalier_speculation::{
    Acceptance, CandidateTree, Distribution, DrawnTree, FinishReason, NgramLimits, Sampling, Token, Tree,
};
use espalier_text::{Parts, Tokenizer};
use espalier_verifier::{Args, Config, Target, serve};
use tokio::sync::mpsc;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/small")
}

/// Starts a verifier of the small model; it runs until the test ends.
async fn start(args: &[&str]) -> Channel {
    let model = model();
    let fixed = ["verifier", "--model", model.to_str().unwrap(), "--threads", "1"];
    let args = Args::parse_from(fixed.iter().chain(args));
    let config = Config::from_args(&args, 1).unwrap();
    let load = move || Target::load(&config, &Team::new(config.threads()), |_, _| {});
    let target = tokio::task::spawn_blocking(load).await.unwrap().unwrap();
    let bound = bind(ANY_PORT).await.unwrap();
    let channel = channel(&bound.url()).unwrap();
    tokio::spawn(serve(target, bound, std::future::pending()));
    channel
}

/// A prompt and what the model says to it greedily, as another implementation computed it.
struct Golden {
    prompt: Vec<Token>,
    answer: Vec<Token>,
}

fn golden(count: usize) -> Vec<Golden> {
    let lines = std::fs::read_to_string(model().join("greedy.jsonl")).unwrap();
    let tokens = |value: &serde_json::Value| -> Vec<Token> { serde_json::from_value(value.clone()).unwrap() };
    let read = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        Golden { prompt: tokens(&line["prompt_ids"]), answer: tokens(&line["greedy_ids"]) }
    };
    lines.lines().take(count).map(read).collect()
}

/// So many tokens of real text.
fn long_prompt(count: usize) -> Vec<Token> {
    let prompts: Vec<Token> = golden(24).into_iter().flat_map(|golden| golden.prompt).collect();
    prompts.into_iter().cycle().take(count).collect()
}

fn open(id: u128, committed: &[Token], max_tokens: usize) -> Open {
    Open { sequence: SequenceSpec::new(SequenceId::from(id), committed.to_vec(), max_tokens), tap: None }
}

/// The same with another way of sampling.
fn sampled(sampling: Sampling, open: Open) -> Open {
    Open { sequence: SequenceSpec { sampling, ..open.sequence }, ..open }
}

/// A round with a tree.
fn round(round: u64, tree: impl Into<CandidateTree>) -> Submission {
    Submission::Tree(NumberedTree { round, tree: tree.into() })
}

async fn opened(channel: &Channel, open: Open) -> Result<RemoteVerifier, Fault> {
    let mut verifier = RemoteVerifier::open(channel.clone(), open, MetadataMap::new()).await?;
    verifier.reused_prefix().await.map(|_| verifier)
}

/// Runs a sequence to its end.
async fn text_of(channel: &Channel, open: Open, proposer: impl Proposer) -> (Vec<Token>, FinishReason) {
    let sequence = Sequence::new(open.sequence.committed.clone(), open.sequence.max_tokens);
    let verifier = opened(channel, open).await.unwrap();
    let grants = Grants::new();
    grants.add(Grant::new(1024).unwrap()).unwrap();
    let (events, mut read) = mpsc::channel::<Event>(EVENTS_MAX);
    let follow = async {
        let mut text = Vec::new();
        loop {
            match read.recv().await.unwrap().unwrap() {
                DrafterEvent::Round(report) => text.extend(report.tokens),
                DrafterEvent::Finished(reason) => return (text, reason),
            }
        }
    };
    tokio::join!(Driver::new(sequence, proposer, verifier).run(grants, events), follow).1
}

/// Proposes what is known to come, `depth` tokens of it, with wrong branches
/// beside and below them.
struct Prophet {
    whole: Vec<Token>,
    depth: usize,
}

impl Proposer for Prophet {
    async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
        let mut tree = Tree::new();
        let mut above = 0;
        for &token in self.whole.iter().skip(sequence.committed().len()).take(self.depth) {
            tree.push(above, (token + 1) % 4096, 0.25).unwrap();
            let right = tree.push(above, token, 0.5).unwrap();
            tree.push(above, (token + 2) % 4096, 0.125).unwrap();
            above = right;
        }
        Ok(Proposed::whole(tree))
    }

    async fn observe(&mut self, _: &Feedback<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

fn prophet(prompt: &[Token], answer: &[Token], depth: usize) -> Prophet {
    Prophet { whole: [prompt, answer].concat(), depth }
}

fn ngram() -> Ngram {
    Ngram::new(vec![], NgramLimits::default(), Acceptance::Coupled)
}

#[tokio::test]
async fn plain_decoding_says_what_another_implementation_says() {
    let channel = start(&[]).await;
    for (id, golden) in (0..).zip(golden(4)) {
        let (text, _) = text_of(&channel, open(id, &golden.prompt, golden.answer.len()), Plain).await;
        assert_eq!(text, golden.answer);
    }
}

#[tokio::test]
async fn the_text_is_the_same_whatever_is_proposed() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    for depth in [1, 3, 8] {
        let open = open(depth as u128, &prompt, answer.len());
        assert_eq!(text_of(&channel, open, prophet(&prompt, &answer, depth)).await.0, answer);
    }
    let open = open(99, &prompt, answer.len());
    assert_eq!(text_of(&channel, open, ngram()).await.0, answer);
}

#[tokio::test]
async fn a_seed_decides_the_text_whatever_is_proposed() {
    let channel = start(&[]).await;
    let prompt = golden(1).remove(0).prompt;
    let sampling = |seed| Sampling::new(0.8, 50, 0.95, seed).unwrap();
    let seeded = |id, seed| sampled(sampling(seed), open(id, &prompt, 40));
    let (text, _) = text_of(&channel, seeded(1, 7), Plain).await;
    assert_eq!(text_of(&channel, seeded(2, 7), ngram()).await.0, text);
    assert_eq!(text_of(&channel, seeded(3, 7), prophet(&prompt, &text, 5)).await.0, text);
    assert_ne!(text_of(&channel, seeded(4, 8), Plain).await.0, text);
}

#[tokio::test]
async fn sequences_do_not_disturb_each_other() {
    let channel = start(&[]).await;
    let golden = golden(6);
    let run = |id: usize| {
        let (channel, Golden { prompt, answer }) = (channel.clone(), &golden[id]);
        async move {
            let open = open(id as u128, prompt, answer.len());
            match id % 3 {
                0 => text_of(&channel, open, Plain).await.0,
                1 => text_of(&channel, open, ngram()).await.0,
                _ => text_of(&channel, open, prophet(prompt, answer, id)).await.0,
            }
        }
    };
    let texts = futures::future::join_all((0..golden.len()).map(run)).await;
    for (text, golden) in texts.iter().zip(&golden) {
        assert_eq!(text, &golden.answer);
    }
}

#[tokio::test]
async fn a_long_prompt_is_read_in_pieces() {
    let channel = start(&[]).await;
    let prompt = long_prompt(1500);
    let (text, _) = text_of(&channel, open(1, &prompt, 16), Plain).await;
    let grown: Vec<Token> = prompt.iter().chain(&text[..8]).copied().collect();
    assert_eq!(text_of(&channel, open(2, &grown, 8), ngram()).await.0, text[8..]);
}

#[tokio::test]
async fn a_stop_token_ends_the_text_exactly_there() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    let stop = answer[10];
    let end = answer.iter().position(|token| *token == stop).unwrap();
    let mut open = open(1, &prompt, answer.len());
    open.sequence.stop_tokens = vec![stop];
    let (text, reason) = text_of(&channel, open, prophet(&prompt, &answer, 8)).await;
    assert_eq!((text.as_slice(), reason), (&answer[..=end], FinishReason::Stop));
}

#[tokio::test]
async fn the_last_tokens_of_the_context_can_be_used() {
    let channel = start(&[]).await;
    let prompt = long_prompt(2040);
    let (text, reason) = text_of(&channel, open(1, &prompt, 8), Plain).await;
    assert_eq!((text.len(), reason), (8, FinishReason::Length));
    assert_eq!(text_of(&channel, open(2, &prompt, 8), prophet(&prompt, &text, 8)).await.0, text);
}

#[tokio::test]
async fn a_verifier_describes_itself_and_hands_out_its_tokenizer() {
    let channel = start(&["--name", "tiny", "--tree-nodes-max", "9"]).await;
    let mut client = VerifierClient::new(channel);
    let card = client.describe(pb::DescribeVerifierRequest {}).await.unwrap().into_inner();
    let card = VerifierCard::try_from(card).unwrap();
    assert_eq!((card.name.as_str(), card.context, card.tree_nodes_max), ("tiny", 2048, 9));
    assert_eq!(card.end_tokens, [2]);
    assert_eq!((card.model.layers, card.model.hidden_size), (8, 256));
    assert_eq!(card.model.fingerprint, fingerprint(&model()).unwrap());
    assert_eq!(card.costs.iter().map(|cost| cost.rows).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32]);

    let mut pieces = client.fetch_tokenizer(pb::FetchTokenizerRequest {}).await.unwrap().into_inner();
    let mut collector = TokenizerCollector::default();
    while let Some(piece) = pieces.message().await.unwrap() {
        collector.add(&piece).unwrap();
    }
    let files = collector.finish().unwrap();
    let parts = Parts { tokenizer: files.tokenizer, config: files.config, chat_template: files.chat_template };
    assert_eq!(Tokenizer::from_parts(parts).unwrap().fingerprint(), card.vocabulary.fingerprint);
}

#[tokio::test]
async fn what_cannot_be_opened_is_refused_with_the_reason() {
    let channel = start(&[]).await;
    let cases = [
        (open(1, &[], 5), "committed is empty"),
        (open(1, &[1], 0), "max_tokens is 0, below the minimum of 1"),
        (open(1, &[4096], 5), "committed holds token 4096, beyond the vocabulary of 4096"),
        (open(1, &[1], 2048), "1 tokens and 2048 more exceed the context of 2048"),
    ];
    for (open, reason) in cases {
        let fault = opened(&channel, open).await.unwrap_err();
        assert_eq!((fault.party, fault.kind), (Party::Client, FaultKind::BadInput));
        assert_eq!(fault.message, reason);
    }
}

#[tokio::test]
async fn a_tree_out_of_order_or_too_large_ends_the_stream_with_the_reason() {
    let channel = start(&["--tree-nodes-max", "2"]).await;
    let mut verifier = opened(&channel, open(1, &[1, 3], 5)).await.unwrap();
    verifier.submit(round(1, Tree::new())).await.unwrap();
    let fault = verifier.outcome().await.unwrap_err();
    assert_eq!(fault.message, "round 1 came where round 0 is next");

    let mut verifier = opened(&channel, open(2, &[1, 3], 5)).await.unwrap();
    let mut tree = Tree::new();
    for token in 0..3 {
        tree.push(0, token, 0.5).unwrap();
    }
    verifier.submit(round(0, tree)).await.unwrap();
    let fault = verifier.outcome().await.unwrap_err();
    assert_eq!(fault.message, "a tree of 3 nodes exceeds the limit of 2");
    assert_eq!(fault.kind, FaultKind::BadInput);
}

#[tokio::test]
async fn credit_for_more_rounds_than_may_be_under_way_ends_the_stream_with_the_reason() {
    let channel = start(&[]).await;
    let mut verifier = opened(&channel, open(1, &long_prompt(1500), 500)).await.unwrap();
    for round in [0, 64] {
        let credit = Credit { round, tokens: Credit::TOKENS_MAX, states_later: false };
        verifier.submit(Submission::Credit(credit)).await.unwrap();
    }
    let fault = loop {
        if let Err(fault) = verifier.outcome().await {
            break fault;
        }
    };
    assert_eq!(
        (fault.message.as_str(), fault.kind),
        ("more than 64 rounds of a sequence would be under way", FaultKind::BadInput)
    );
}

#[tokio::test]
async fn a_full_verifier_refuses_at_once_and_a_dropped_stream_makes_room() {
    let channel = start(&["--sequences-max", "1"]).await;
    let first = opened(&channel, open(1, &[1, 3], 5)).await.unwrap();
    let fault = opened(&channel, open(2, &[1, 3], 5)).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Overloaded);
    assert!(fault.retry_after.is_some());
    drop(first);
    let again = async {
        while opened(&channel, open(2, &[1, 3], 5)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), again).await.unwrap();
}

#[tokio::test]
async fn who_finds_no_memory_is_refused_with_the_figures() {
    // Eight blocks of 64 positions; the largest tree takes 363.
    let channel = start(&["--kv-memory", "4MiB"]).await;
    let first = opened(&channel, open(1, &long_prompt(100), 5)).await.unwrap();
    let fault = opened(&channel, open(2, &long_prompt(101)[1..], 5)).await.unwrap_err();
    assert_eq!((fault.party, fault.kind), (Party::Verifier, FaultKind::Overloaded));
    assert_eq!(fault.message, "8 blocks of KV memory are needed, but 0 of 8 are free");
    assert!(fault.retry_after.is_some());
    let fault = opened(&channel, open(3, &long_prompt(1000), 5)).await.unwrap_err();
    assert_eq!((fault.party, fault.kind, fault.retry_after), (Party::Client, FaultKind::BadInput, None));
    assert_eq!(fault.message, "22 blocks of KV memory are needed, but there are only 8");
    drop(first);
}

#[tokio::test]
async fn a_beginning_that_another_sequence_has_read_is_not_read_again() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    assert_eq!(text_of(&channel, open(1, &prompt, answer.len()), ngram()).await.0, answer);
    let open = open(2, &prompt, answer.len());
    assert_eq!(opened(&channel, open.clone()).await.unwrap().reused_prefix().await, Ok(prompt.len() - 1));
    assert_eq!(text_of(&channel, open, prophet(&prompt, &answer, 3)).await.0, answer);
}

#[tokio::test]
async fn a_sequence_that_is_opened_again_goes_on_there() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    let mut first = opened(&channel, open(1, &prompt, answer.len())).await.unwrap();
    assert_eq!(first.reused_prefix().await, Ok(0));
    first.submit(round(0, Tree::new())).await.unwrap();
    let token = first.outcome().await.unwrap().tokens[0];
    assert_eq!(token, answer[0]);

    let grown = [prompt.as_slice(), &answer[..1]].concat();
    let mut second = opened(&channel, open(1, &grown, answer.len() - 1)).await.unwrap();
    assert_eq!(second.reused_prefix().await, Ok(prompt.len()));
    let fault = first.outcome().await.unwrap_err();
    assert_eq!((fault.party, fault.kind), (Party::Verifier, FaultKind::LostSequence));
    drop((first, second));
    let text = text_of(&channel, open(1, &grown, answer.len() - 1), Plain).await.0;
    assert_eq!(text, answer[1..]);
}

fn by_rejection(id: u128, seed: u64, prompt: &[Token], max_tokens: usize) -> Open {
    let sampling = Sampling::new(0.8, 50, 0.95, seed).unwrap().with_acceptance(Acceptance::Rejection);
    sampled(sampling, open(id, prompt, max_tokens))
}

#[tokio::test]
async fn by_rejection_seed_and_proposals_decide_the_text() {
    let channel = start(&[]).await;
    let prompt = golden(1).remove(0).prompt;
    let plain = |id, seed| text_of(&channel, by_rejection(id, seed, &prompt, 40), Plain);
    let text = plain(1, 7).await.0;
    assert_eq!(plain(2, 7).await.0, text);
    assert_ne!(plain(3, 8).await.0, text);
    let copied = |id| {
        let ngram = Ngram::new(vec![], NgramLimits::default(), Acceptance::Rejection);
        text_of(&channel, by_rejection(id, 7, &prompt, 40), ngram)
    };
    assert_eq!(copied(4).await, copied(5).await);
}

/// Draws one token from a distribution of its own.
fn drawn(token: Token, pairs: &[(Token, f64)]) -> CandidateTree {
    let mut tree = Tree::new();
    tree.push(0, token, 0.5).unwrap();
    let q = Distribution::from_pairs(pairs.to_vec()).unwrap();
    DrawnTree::new(tree, vec![Some(q), None]).unwrap().into()
}

#[tokio::test]
async fn by_rejection_a_tree_is_cut_where_the_context_ends_and_logprobs_come_with_its_tokens() {
    let channel = start(&[]).await;
    let prompt = long_prompt(2040);
    let mut asked = by_rejection(1, 7, &prompt, 8);
    asked.sequence.logprobs = Some(2);
    let mut verifier = opened(&channel, asked).await.unwrap();
    let mut guesses = Tree::new();
    for node in 0..20 {
        guesses.push(node, 5, 1.0).unwrap();
    }
    verifier.submit(round(0, DrawnTree::trunk(&guesses))).await.unwrap();
    let outcome = verifier.outcome().await.unwrap();
    assert!((1..=8).contains(&outcome.tokens.len()));
    assert_eq!(outcome.logprobs.len(), outcome.tokens.len());
}

#[tokio::test]
async fn by_rejection_a_stop_token_ends_the_text_exactly_there() {
    let channel = start(&[]).await;
    let prompt = golden(1).remove(0).prompt;
    let (text, _) = text_of(&channel, by_rejection(1, 7, &prompt, 20), Plain).await;
    let end = text.iter().position(|token| *token == text[10]).unwrap();
    let mut stopped = by_rejection(2, 7, &prompt, 20);
    stopped.sequence.stop_tokens = vec![text[10]];
    assert_eq!(text_of(&channel, stopped, Plain).await, (text[..=end].to_vec(), FinishReason::Stop));
}

#[tokio::test]
async fn a_tree_that_does_not_suit_the_acceptance_ends_the_stream_with_the_reason() {
    let channel = start(&[]).await;
    let (ranked, honest) = (drawn(5, &[(5, 1.0)]).tree().clone().into(), drawn(5, &[(5, 0.5), (6, 0.5)]));
    let alien = drawn(5, &[(5, 0.5), (4096, 0.5)]);
    for (open, tree, reason) in [
        (by_rejection(1, 0, &[1, 3], 5), ranked, "node 0 has children, but no draft distribution"),
        (by_rejection(2, 0, &[1, 3], 5), alien, "drawn_from holds token 4096, beyond the vocabulary of 4096"),
        (open(3, &[1, 3], 5), honest, "drawn_from is 1, beyond the limit of 0"),
    ] {
        let mut verifier = opened(&channel, open).await.unwrap();
        verifier.submit(round(0, tree)).await.unwrap();
        let fault = verifier.outcome().await.unwrap_err();
        assert_eq!((fault.message.as_str(), fault.kind), (reason, FaultKind::BadInput));
    }
}

/// Passes on what another proposes, and keeps the hidden states that come back.
struct Reading<'a, P> {
    proposer: P,
    read: &'a mut HiddenStates,
}

impl<P: Proposer> Proposer for Reading<'_, P> {
    async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
        self.proposer.propose(sequence).await
    }

    async fn observe(&mut self, feedback: &Feedback<'_>) -> Result<(), Fault> {
        self.read.append(feedback.outcome.states.clone().unwrap()).unwrap();
        self.proposer.observe(feedback).await
    }
}

/// Where the tests read hidden states.
const TAP: Tap = Tap { layer: 5, width: 256 };

/// The hidden states that come with a text, and the text.
async fn states_of(channel: &Channel, open: Open, proposer: impl Proposer) -> (HiddenStates, Vec<Token>) {
    let mut read = HiddenStates::new(0, TAP.width);
    let reading = Reading { proposer, read: &mut read };
    let (text, _) = text_of(channel, Open { tap: Some(TAP), ..open }, reading).await;
    (read, text)
}

/// The model's hidden states of these tokens.
fn states_alone(tokens: &[Token]) -> HiddenStates {
    let decoder = Decoder::load(&Checkpoint::open(model()).unwrap(), &LoadOptions::default()).unwrap();
    let (mut work, mut cache, rows) = (Workspace::new(1), decoder.new_cache(), Row::chain(tokens, 0));
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::None }];
    let output = decoder.forward(&mut work, &mut segments, Depth { exit_after: None, taps: &[TAP.layer] }).unwrap();
    let mut states = HiddenStates::new(0, TAP.width);
    (0..tokens.len()).for_each(|row| states.push(output.tap(0, 0, row)));
    states
}

#[tokio::test]
async fn the_hidden_states_of_every_position_come_once_whatever_is_proposed() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    let whole = [prompt.as_slice(), &answer].concat();
    // No state is known of the last token: nothing has run on it.
    let expected = (states_alone(&whole[..whole.len() - 1]), answer.clone());
    let asked = |id| open(id, &prompt, answer.len());
    assert_eq!(states_of(&channel, asked(1), Plain).await, expected);
    let (by_tree, without) = tokio::join!(
        states_of(&channel, asked(2), prophet(&prompt, &answer, 5)),
        text_of(&channel, asked(3), prophet(&prompt, &answer, 3)),
    );
    assert_eq!(by_tree, expected);
    assert_eq!(without.0, answer);
}

#[tokio::test]
async fn a_sequence_that_is_opened_again_brings_its_hidden_states_again() {
    let channel = start(&[]).await;
    let prompt = long_prompt(700);
    let first = opened(&channel, open(1, &prompt, 4)).await.unwrap();
    let mut second = opened(&channel, Open { tap: Some(TAP), ..open(1, &prompt, 4) }).await.unwrap();
    assert_eq!(second.reused_prefix().await, Ok(0));
    drop((first, second));
    let (states, text) = states_of(&channel, open(1, &prompt, 4), ngram()).await;
    assert_eq!(states, states_alone(&[&prompt, &text[..3]].concat()));
}

#[tokio::test]
async fn hidden_states_that_the_model_does_not_have_are_refused() {
    let channel = start(&[]).await;
    for (tap, reason) in [
        (Tap { layer: 9, width: 256 }, "hidden_states.layer is 9, beyond the limit of 8"),
        (Tap { layer: 5, width: 384 }, "hidden states are 384 wide where 256 were expected"),
    ] {
        let fault = opened(&channel, Open { tap: Some(tap), ..open(1, &[1, 3], 5) }).await.unwrap_err();
        assert_eq!((fault.message.as_str(), fault.kind), (reason, FaultKind::BadInput));
    }
}
