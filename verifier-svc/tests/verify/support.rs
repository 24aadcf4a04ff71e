//! A verifier at work, and ways to ask it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;
use espalier_model::Team;
use espalier_proto::{DrafterEvent, Fault, Grant, NumberedTree, Open, SequenceId, SequenceSpec, Submission};
use espalier_round::{
    Driver, EVENTS_MAX, Event, Feedback, Grants, Ngram, Proposed, Proposer, RemoteVerifier, Sequence,
};
use espalier_service_kit::{bind, channel};
use espalier_speculation::{Acceptance, CandidateTree, FinishReason, NgramLimits, Sampling, Token, Tree};
use espalier_verifier::{Args, Config, Target, serve};
use tokio::sync::mpsc;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;

pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

pub(crate) fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/small")
}

/// Starts a verifier of the small model; it runs until the test ends.
pub(crate) async fn start(args: &[&str]) -> Channel {
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
pub(crate) struct Golden {
    pub(crate) prompt: Vec<Token>,
    pub(crate) answer: Vec<Token>,
}

pub(crate) fn golden(count: usize) -> Vec<Golden> {
    let lines = std::fs::read_to_string(model().join("greedy.jsonl")).unwrap();
    let tokens = |value: &serde_json::Value| -> Vec<Token> { serde_json::from_value(value.clone()).unwrap() };
    let read = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        Golden { prompt: tokens(&line["prompt_ids"]), answer: tokens(&line["greedy_ids"]) }
    };
    lines.lines().take(count).map(read).collect()
}

/// So many tokens of real text.
pub(crate) fn long_prompt(count: usize) -> Vec<Token> {
    let prompts: Vec<Token> = golden(24).into_iter().flat_map(|golden| golden.prompt).collect();
    prompts.into_iter().cycle().take(count).collect()
}

pub(crate) fn open(id: u128, committed: &[Token], max_tokens: usize) -> Open {
    Open { sequence: SequenceSpec::new(SequenceId::from(id), committed.to_vec(), max_tokens), tap: None }
}

/// The same with another way of sampling.
pub(crate) fn sampled(sampling: Sampling, open: Open) -> Open {
    Open { sequence: SequenceSpec { sampling, ..open.sequence }, ..open }
}

/// A round with a tree.
pub(crate) fn round(round: u64, tree: impl Into<CandidateTree>) -> Submission {
    Submission::Tree(NumberedTree { round, tree: tree.into() })
}

pub(crate) async fn opened(channel: &Channel, open: Open) -> Result<RemoteVerifier, Fault> {
    let mut verifier = RemoteVerifier::open(channel.clone(), open, MetadataMap::new()).await?;
    verifier.reused_prefix().await.map(|_| verifier)
}

/// Runs a sequence to its end.
pub(crate) async fn text_of(channel: &Channel, open: Open, proposer: impl Proposer) -> (Vec<Token>, FinishReason) {
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
pub(crate) struct Prophet {
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

pub(crate) fn prophet(prompt: &[Token], answer: &[Token], depth: usize) -> Prophet {
    Prophet { whole: [prompt, answer].concat(), depth }
}

pub(crate) fn ngram() -> Ngram {
    Ngram::new(vec![], NgramLimits::default(), Acceptance::Coupled)
}
