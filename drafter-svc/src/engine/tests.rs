//! Drafters of several kinds in the engine: what they draft depends on what is committed, and on nothing else.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use espalier_model::{
    Checkpoint, Decoder, Depth, DraftKind, DraftModel, LoadOptions, Logits, Row, Segment, Workspace, fingerprint,
};
use espalier_proto::{HiddenStates, Outcome};
use espalier_round::Proposed;
use espalier_speculation::{CostModel, Limits, Sampling, Token, parse_policy};
use futures::future::join_all;
use serde_json::{Value, json};

use super::{Drafting, Engine, Exits, Request};
use crate::config::Config;

/// The layer after which the target's states are read.
const TAPPED: usize = 2;

/// A target of four layers.
fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/model/tests/golden/qwen3")
}

fn config() -> Value {
    serde_json::from_slice(&fs::read(target().join("config.json")).unwrap()).unwrap()
}

/// A drafter that has the target's tensors, as far as it has use for them.
fn open(config: &Value) -> DraftModel {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    fs::copy(target().join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    DraftModel::open(folder.path(), None, &LoadOptions::default()).unwrap()
}

fn edd() -> DraftModel {
    let mut layer = config();
    layer["num_hidden_layers"] = json!(1);
    layer["layer_types"] = json!(["full_attention"]);
    let card = json!({
        "name": "qwen3", "fingerprint": fingerprint(&target()).unwrap(), "tokenizer": "t", "layers": 4,
        "hidden_size": 64,
    });
    open(&json!({
        "model_type": "espalier_edd", "target": card, "tapped_layer": TAPPED, "block_lengths": [5, 10], "decoder": layer,
    }))
}

fn sorted(exits: &[usize]) -> DraftModel {
    let mut config = config();
    config["espalier_exits"] = json!(exits);
    open(&config)
}

/// A text of so many tokens.
fn text(tokens: usize) -> Vec<Token> {
    (0..tokens as Token).map(|i| i * i * 7 % 491 + 3).collect()
}

/// The target's states at the positions of a text: those from `first` on.
fn states(text: &[Token], first: usize) -> HiddenStates {
    let decoder = Decoder::load(&Checkpoint::open(target()).unwrap(), &LoadOptions::default()).unwrap();
    let (mut work, mut cache, rows) = (Workspace::new(1), decoder.new_cache(), Row::chain(text, 0));
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last }];
    let output = decoder.forward(&mut work, &mut segments, Depth { exit_after: None, taps: &[TAPPED] }).unwrap();
    let mut states = HiddenStates::new(first, 64);
    (first..text.len()).for_each(|row| states.push(output.tap(0, 0, row)));
    states
}

/// A model at work.
struct Bench {
    model: Arc<DraftModel>,
    exits: Exits,
    engine: Engine,
}

impl Bench {
    fn new(model: DraftModel, thresholds: Option<&str>) -> Self {
        let fixed = Config::new(PathBuf::new(), None, std::num::NonZeroUsize::MIN);
        let config = Config { thresholds: thresholds.map(str::to_owned), ..fixed };
        let vocab = model.decoder().config().vocab;
        let exits = Exits::new(&model, &config, vocab).unwrap();
        let model = Arc::new(model);
        let engine = Engine::start(model.clone(), Workspace::new(1)).unwrap();
        Self { model, exits, engine }
    }

    fn sequence(&self, committed: &[Token]) -> Box<Drafting> {
        let policy = parse_policy("eagle2,total=12,depth=3,k=3").unwrap();
        let sampling = Sampling::greedy();
        let request = Request { committed: committed.to_vec(), generated: 0, sampling, policy, stops: vec![] };
        let vocab = self.model.decoder().config().vocab;
        Box::new(Drafting::new(&self.model, (self.exits.clone(), vocab), request, CostModel::default()).unwrap())
    }

    async fn grow(&self, mut drafting: Box<Drafting>) -> (Box<Drafting>, Proposed) {
        assert!(drafting.can_draft());
        drafting.begin(Limits { max_nodes: 64, max_depth: 16 });
        self.engine.grow(drafting).await.unwrap()
    }

    /// What is drafted after a text for whose last token the target was asked plainly.
    async fn drafted(&self, text: &[Token]) -> Proposed {
        let before = &text[..text.len() - 1];
        let mut drafting = self.sequence(before);
        drafting.append(&outcome(text, before.len(), states(before, 0))).unwrap();
        self.grow(drafting).await.1
    }
}

/// An outcome that commits the tokens of `text` from `known` on, none of them drafted.
fn outcome(text: &[Token], known: usize, states: HiddenStates) -> Outcome {
    Outcome {
        round: 0,
        path: vec![],
        tokens: text[known..].to_vec(),
        logprobs: vec![],
        finish: None,
        compute: Duration::ZERO,
        queue: Duration::ZERO,
        states: Some(states),
    }
}

#[tokio::test]
async fn an_edd_drafts_the_same_however_the_states_came() {
    let bench = Bench::new(edd(), None);
    // Longer than what is read in one pass.
    let text = text(300);
    let expected = bench.drafted(&text).await;
    assert!(!expected.tree.tree().is_empty());

    let mut one_by_one = bench.sequence(&text[..297]);
    assert!(!one_by_one.can_draft(), "the target has told nothing of the prompt");
    one_by_one.append(&outcome(&text[..298], 297, states(&text[..297], 0))).unwrap();
    for known in [298, 299] {
        one_by_one.append(&outcome(&text[..=known], known, states(&text[..known], known - 1))).unwrap();
    }
    assert_eq!(bench.grow(one_by_one).await.1, expected);
}

#[tokio::test]
async fn an_edd_drafts_after_a_tree_what_it_drafts_without_one() {
    let bench = Bench::new(edd(), None);
    let text = text(40);
    let before = &text[..39];
    let mut drafting = bench.sequence(before);
    drafting.append(&outcome(&text, 39, states(before, 0))).unwrap();
    let (mut drafting, proposed) = bench.grow(drafting).await;

    let accepted = proposed.tree.tree().node(1).unwrap().token;
    let whole = [&text[..], &[accepted, 77]].concat();
    let taken = Outcome { path: vec![1], ..outcome(&whole, 40, states(&whole[..41], 39)) };
    drafting.apply(&taken).unwrap();
    assert_eq!(bench.grow(drafting).await.1, bench.drafted(&whole).await);
}

#[tokio::test]
async fn states_that_are_missing_or_of_other_positions_are_an_error() {
    let bench = Bench::new(edd(), None);
    let text = text(9);
    let refusal = |states: Option<HiddenStates>| {
        let outcome = Outcome { states, ..outcome(&text, 8, HiddenStates::new(0, 64)) };
        bench.sequence(&text[..8]).append(&outcome).unwrap_err().to_string()
    };
    assert_eq!(refusal(None), "the outcome of round 0 came without the hidden states that were asked for");
    assert!(
        refusal(Some(states(&text[..8], 1)))
            .ends_with("the hidden states of position 1 came where those of 0 were expected")
    );
}

#[tokio::test]
async fn sequences_that_share_a_pass_draft_what_they_draft_alone() {
    for model in [edd(), sorted(&[1, 2, 4]), sorted(&[4])] {
        let bench = Bench::new(model, None);
        let texts: Vec<Vec<Token>> = [5, 290, 30, 140, 12].map(text).to_vec();
        let together = join_all(texts.iter().map(|text| bench.drafted(text))).await;
        for (text, among_others) in texts.iter().zip(together) {
            assert_eq!(bench.drafted(text).await, among_others, "{} tokens", text.len());
        }
    }
}

#[tokio::test]
async fn thresholds_decide_which_exit_answers() {
    let text = text(40);
    let drafted = async |exits: &[usize], thresholds| Bench::new(sorted(exits), thresholds).drafted(&text).await;
    let cut = |layers| {
        let options = LoadOptions { layers: Some(layers), ..LoadOptions::default() };
        Bench::new(DraftModel::open(&target(), None, &options).unwrap(), None)
    };
    let (first, last) = (cut(1).drafted(&text).await, cut(4).drafted(&text).await);
    assert_ne!(first, last);
    assert_eq!(drafted(&[1, 2, 4], Some("0,0")).await, first);
    assert_eq!(drafted(&[1, 2, 4], Some("1,0")).await, cut(2).drafted(&text).await);
    assert_eq!(drafted(&[1, 2, 4], Some("1,1")).await, last);
}

#[test]
fn a_drafter_that_is_cut_answers_after_its_last_layer_alone_unless_told_otherwise() {
    let exits = |model: &DraftModel, layers, thresholds: Option<&str>| {
        let config = Config::new(PathBuf::new(), layers, std::num::NonZeroUsize::MIN);
        Exits::new(model, &Config { thresholds: thresholds.map(str::to_owned), ..config }, 512)
    };
    let model = sorted(&[1, 2, 4]);
    assert_eq!(*model.kind(), DraftKind::Sorted);
    assert!(exits(&model, None, None).unwrap().are_several());
    assert!(!exits(&model, Some(4), None).unwrap().are_several());
    assert!(exits(&model, Some(4), Some("0.5,0.5")).unwrap().are_several());
    let refusal = exits(&edd(), None, Some("0.5")).unwrap_err().to_string();
    assert_eq!(refusal, "1 thresholds were given for 1 exits, which take 0");
}
