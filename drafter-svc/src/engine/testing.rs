//! A small target, drafters of several kinds for it, and an engine to run them.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use candle_core::{DType, Device, Tensor};
use espalier_model::{
    Asked, Checkpoint, Decoder, DraftModel, LoadOptions, Logits, PREDICTOR_STEPS, Predictor, PredictorConfig,
    PredictorKind, Row, Segment, TargetCard, Workspace, fingerprint,
};
use espalier_proto::{HiddenStates, Outcome, SequenceId, SequenceSpec};
use espalier_round::Proposed;
use espalier_service_kit::Workplace;
use espalier_speculation::{CostModel, Grower, Limits, PassLoad, Restriction, Token, parse_policy};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Drafting, Engine, Exits, Memory, SequenceHandle, Setup};
use crate::config::Config;
use crate::learned::SharedCosts;
use crate::slots::Slots;
use crate::target_shares::TargetShares;

/// The layer after which the target's states are read.
pub(crate) const TAPPED: usize = 2;

/// The width of all states.
pub(crate) const WIDTH: usize = 64;

/// A target of four layers.
pub(crate) fn target() -> PathBuf {
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

/// The target as a drafter for itself.
pub(crate) fn independent() -> DraftModel {
    DraftModel::open(&target(), None, &LoadOptions::default()).unwrap()
}

pub(crate) fn edd() -> DraftModel {
    open(&edd_config())
}

fn edd_config() -> Value {
    let mut layer = config();
    layer["num_hidden_layers"] = json!(1);
    layer["layer_types"] = json!(["full_attention"]);
    json!({
        "model_type": "espalier_edd", "target": card(), "tapped_layer": TAPPED, "block_lengths": [5, 10], "decoder": layer,
    })
}

/// The same with tokens beside states, which go through the maps of the target's second layer.
pub(crate) fn edd_beside() -> DraftModel {
    let mut config = edd_config();
    config["tokens_beside_states"] = json!(true);
    let mut tensors = candle_core::safetensors::load(target().join("model.safetensors"), &Device::Cpu).unwrap();
    for (source, name) in [
        ("input_layernorm", "states_norm"),
        ("self_attn.k_proj", "self_attn.k_states_proj"),
        ("self_attn.v_proj", "self_attn.v_states_proj"),
    ] {
        let tensor = tensors[&format!("model.layers.1.{source}.weight")].clone();
        tensors.insert(format!("model.layers.0.{name}.weight"), tensor);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    candle_core::safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
    DraftModel::open(folder.path(), None, &LoadOptions::default()).unwrap()
}

/// What names the target.
fn card() -> TargetCard {
    TargetCard {
        name: "qwen3".to_owned(),
        fingerprint: fingerprint(&target()).unwrap(),
        tokenizer: "t".to_owned(),
        layers: 4,
        hidden_size: WIDTH,
    }
}

pub(crate) fn sorted(exits: &[usize]) -> DraftModel {
    let mut config = config();
    config["espalier_exits"] = json!(exits);
    open(&config)
}

/// A text of so many tokens.
pub(crate) fn text(tokens: usize) -> Vec<Token> {
    (0..tokens as Token).map(|i| i * i * 7 % 491 + 3).collect()
}

/// The target's states at the positions of a text: those from `first` on.
pub(crate) fn states(text: &[Token], first: usize) -> HiddenStates {
    let decoder = Decoder::load(&Checkpoint::open(target()).unwrap(), &LoadOptions::default()).unwrap();
    let (mut work, mut cache, rows) = (Workspace::new(1), decoder.new_cache(), Row::chain(text, 0));
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) }];
    let output = decoder.forward(&mut work, &mut segments, Asked { taps: &[TAPPED], ..Asked::default() }).unwrap();
    let mut states = HiddenStates::new(first, 64);
    (first..text.len()).for_each(|row| states.push(output.tap(0, 0, row)));
    states
}

/// A model at work.
pub(crate) struct Bench {
    pub(crate) model: Arc<DraftModel>,
    exits: Exits,
    pub(crate) memory: Memory,
    sequence: SequenceHandle,
}

impl Bench {
    pub(crate) fn new(model: DraftModel, thresholds: Option<&str>) -> Self {
        let fixed = Config::new(PathBuf::new(), None, std::num::NonZeroUsize::MIN);
        let config = Config { thresholds: thresholds.map(str::to_owned), ..fixed };
        let vocab = model.decoder().config().vocab;
        let exits = Exits::new(&model, &config, vocab).unwrap();
        let model = Arc::new(model);
        let memory = Memory::new(&model, &config).unwrap();
        let engine = Engine::start(model.clone(), Workspace::new(1), Workplace::default()).unwrap();
        let slot = Slots::new(1, TargetShares::default()).admit("qwen3").unwrap();
        Self { model, exits, memory, sequence: engine.sequence(slot) }
    }

    pub(crate) fn sequence(&self, committed: &[Token]) -> Box<Drafting> {
        self.sequence_under("eagle2,total=12,depth=3,k=3", committed)
    }

    pub(crate) fn sequence_under(&self, policy: &str, committed: &[Token]) -> Box<Drafting> {
        self.sequence_with(policy, committed, None)
    }

    pub(crate) fn sequence_with(
        &self,
        policy: &str,
        committed: &[Token],
        predictor: Option<Arc<Predictor>>,
    ) -> Box<Drafting> {
        Box::new(Drafting::new(&self.model, self.setup(policy, committed, predictor)))
    }

    /// A sequence whose text is held to something.
    pub(crate) fn sequence_held(
        &self,
        policy: &str,
        committed: &[Token],
        restriction: Box<dyn Restriction>,
    ) -> Box<Drafting> {
        let setup = Setup { restriction: Some(restriction), ..self.setup(policy, committed, None) };
        Box::new(Drafting::new(&self.model, setup))
    }

    fn setup(&self, policy: &str, committed: &[Token], predictor: Option<Arc<Predictor>>) -> Setup {
        let decoder = self.model.decoder();
        let sequence = SequenceSpec::new(SequenceId::from(1), committed.to_vec(), 64);
        Setup {
            cache: self.memory.open(&self.model, &sequence).unwrap(),
            sequence,
            restriction: None,
            grower: Grower::new(&parse_policy(policy).unwrap(), decoder.config().eos.clone()),
            exits: self.exits.clone(),
            tuning: None,
            predictor,
            costs: SharedCosts::new(CostModel::default()),
            vocab: decoder.config().vocab,
            trees: false,
        }
    }

    pub(crate) async fn grow(&self, mut drafting: Box<Drafting>) -> (Box<Drafting>, Proposed) {
        assert!(drafting.can_draft());
        drafting.begin(Limits { max_nodes: 64, max_depth: 16 });
        self.sequence.grow(drafting).await.unwrap()
    }

    /// Has the model read what is committed.
    pub(crate) async fn read(&self, drafting: Box<Drafting>) -> Box<Drafting> {
        let mut reading = self.sequence.read(drafting).await.unwrap();
        loop {
            match reading.ended() {
                Some(read) => break read.unwrap(),
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// What is drafted after a text for whose last token the target was asked plainly.
    pub(crate) async fn drafted(&self, text: &[Token]) -> Proposed {
        let before = &text[..text.len() - 1];
        let mut drafting = self.sequence(before);
        drafting.commit_plain(&outcome(text, before.len(), states(before, 0))).unwrap();
        self.grow(drafting).await.1
    }
}

/// An outcome that commits the tokens of `text` from `known` on, none of them drafted.
pub(crate) fn outcome(text: &[Token], known: usize, states: HiddenStates) -> Outcome {
    Outcome {
        round: 0,
        path: vec![],
        tokens: text[known..].to_vec(),
        logprobs: vec![],
        finish: None,
        compute: Duration::ZERO,
        queue: Duration::ZERO,
        load: PassLoad::default(),
        prompts: Duration::ZERO,
        states: Some(states),
    }
}

/// What a predictor of the target says of itself that was trained with the target as a drafter.
pub(crate) fn predictor_config() -> PredictorConfig {
    PredictorConfig {
        model_type: PredictorKind::CaliTs,
        target: card(),
        tapped_layer: TAPPED,
        drafter: fingerprint(&target()).unwrap(),
        draft_hidden_size: WIDTH,
    }
}

/// The folder of a predictor. Each step's matrix is the identity, and `output` weighs the target's state and then the
/// drafter's.
pub(crate) fn predictor(config: &PredictorConfig, output: Vec<f32>) -> TempDir {
    let (folder, device) = (tempfile::tempdir().unwrap(), &Device::Cpu);
    let identity = Tensor::eye(WIDTH, DType::F32, device).unwrap();
    let matrices = identity.broadcast_as((PREDICTOR_STEPS, WIDTH, WIDTH)).unwrap().contiguous().unwrap();
    let width = output.len();
    let output = Tensor::from_vec(output, (1, width), device).unwrap();
    let tensors = HashMap::from([("target.weight", matrices), ("output.weight", output)]);
    candle_core::safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
    fs::write(folder.path().join("config.json"), json!(config).to_string()).unwrap();
    folder
}
