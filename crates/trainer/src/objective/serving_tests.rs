//! What is served is what was trained: drafters saved to a folder, loaded for inference and fed step by step from caches say
//! what the training graph says.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use candle_core::{DType, Tensor};
use espalier_model::{
    Asked, Checkpoint, Decoder, DraftModel, KvCache, LoadOptions, Logits, Predictor, Row, Segment, States, Workspace,
};
use espalier_speculation::arg_max;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::dual_block::Blocks;
use super::{Objective, Setting, open};
use crate::data::Batch;
use crate::output::write_tensors;
use crate::random::{Draws, Purpose};
use crate::recipe::{CaliTsMethod, EarlyExitMethod, EddMethod, Method, Sight, SortedMethod};
use crate::testing::{checkpoint, max_abs, noise, processor, shipped, tiny_config};

const TEXT: [u32; 23] = [1, 17, 900, 4000, 33, 8, 5, 6, 7, 2, 250, 3, 77, 77, 1000, 12, 9, 2047, 64, 31, 500, 3999, 21];

fn draws() -> Draws {
    Draws::new(3, Purpose::Training, 0)
}

/// An objective whose weights have pronounced opinions.
fn objective(method: &Method) -> Box<dyn Objective> {
    let setting = Setting { dtype: DType::F32, place: processor(), seed: 4, length: TEXT.len() };
    let objective = open(method, &setting).unwrap();
    for (name, var) in objective.params().trained() {
        var.set(&noise(&format!("trained {name}"), var.as_tensor(), 0.2)).unwrap();
    }
    objective
}

/// What the graph says of a text at each exit: a row for every token.
fn trained(objective: &dyn Objective, text: &[u32]) -> Vec<Vec<Vec<f32>>> {
    let prediction = objective.predict(&Batch::of_texts(&[text.to_vec()]), draws()).unwrap();
    prediction.exits.iter().map(|exit| exit.logits.to_vec2().unwrap()).collect()
}

fn saved(objective: &dyn Objective) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tensors: BTreeMap<String, Tensor> =
        objective.params().all().map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect();
    write_tensors(&folder.path().join("model.safetensors"), &tensors, HashMap::new()).unwrap();
    fs::write(folder.path().join("config.json"), objective.product().config.to_string()).unwrap();
    fs::copy(shipped("small").join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    folder
}

fn served(objective: &dyn Objective, target: &Path) -> DraftModel {
    DraftModel::open(saved(objective).path(), Some(target), &LoadOptions::default()).unwrap()
}

fn assert_close(found: &[Vec<f32>], expected: &[Vec<f32>], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = max_abs(found, expected);
        assert!(difference < 1e-4, "{what}, position {position}: {difference}");
        assert_eq!(arg_max(found).unwrap(), arg_max(expected).unwrap(), "{what}, position {position}");
    }
}

/// Runs a row after another; each is followed by one that no later row follows, as drafted siblings are.
fn draft(model: &DraftModel, cache: &mut KvCache, tokens: &[u32], goes_on: bool) -> Vec<Vec<f32>> {
    let mut work = Workspace::new(1);
    let mut rows_of = |token, parent| {
        let rows = [Row { token, parent }, Row { token: token + 1, parent }];
        let mut segments = [Segment { cache, rows: &rows, logits: Logits::All }];
        model.forward(&mut work, &mut segments, |_| goes_on).unwrap().logits(0, 0).to_vec()
    };
    tokens.iter().enumerate().map(|(i, &token)| rows_of(token, i.checked_sub(1).map(|last| 2 * last))).collect()
}

/// The target's residual stream after layer `tapped` at every token of a text: (tokens, hidden).
fn hidden_states(target: &Path, text: &[u32], tapped: usize) -> Vec<f32> {
    let decoder = Decoder::load(&Checkpoint::open(target).unwrap(), &LoadOptions::default()).unwrap();
    let (mut work, mut cache, rows) = (Workspace::new(1), decoder.new_cache(), Row::chain(text, 0));
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) }];
    let output = decoder.forward(&mut work, &mut segments, Asked { taps: &[tapped], ..Asked::default() }).unwrap();
    (0..text.len()).flat_map(|row| output.tap(0, 0, row).to_vec()).collect()
}

/// Drafts a text round by round: what was drafted in a block, which begins at `starts`, is committed by its states (and
/// tokens) before the next.
fn draft_in_rounds(model: &DraftModel, text: &[u32], starts: &[usize], states: &[f32]) -> Vec<Vec<f32>> {
    let (mut work, mut cache) = (Workspace::new(1), model.decoder().new_cache());
    let mut found = Vec::new();
    for block in starts.chunk_by(|a, b| a == b) {
        let (first, end) = (block[0], block[0] + block.len());
        found.extend(draft(model, &mut cache, &text[first..end], true));
        let (tokens, states) = (&text[first..end], &states[first * 32..end * 32]);
        model.decoder().append_states(&mut work, &mut [States { cache: &mut cache, tokens, states }]).unwrap();
        assert_eq!(cache.committed(), end);
    }
    found
}

#[test]
fn an_edd_fed_round_by_round_says_what_its_graph_says() {
    let mut plain = tiny_config();
    plain["max_position_embeddings"] = json!(256);
    let (mut biased, mut normed) = (plain.clone(), plain.clone());
    biased["attention_bias"] = json!(true);
    (normed["model_type"], normed["head_dim"]) = (json!("qwen3"), json!(8));
    // More than a block of the cache.
    let text: Vec<u32> = (0..150).map(|i| TEXT[i % 23] + i as u32 / 23).collect();
    let starts = Blocks { min: 2, max: 6 }.cut(&Batch::of_texts(std::slice::from_ref(&text)), &mut draws());
    for (config, sight, freeze_head) in [
        (&plain, Sight::States, false),
        (&plain, Sight::States, true),
        (&plain, Sight::TokensAndStates, false),
        (&biased, Sight::TokensAndStates, false),
        (&normed, Sight::TokensAndStates, true),
    ] {
        let target = checkpoint(config);
        let method =
            EddMethod { sight, freeze_head, block_min: 2, block_max: 6, ..EddMethod::new(target.path().to_owned()) };
        let objective = objective(&Method::Edd(method));
        let model = served(objective.as_ref(), target.path());
        let states = hidden_states(target.path(), &text, model.kind().tapped_layer().unwrap());
        let found = draft_in_rounds(&model, &text, &starts, &states);
        assert_close(&found, &trained(objective.as_ref(), &text)[0], &format!("{sight:?} of {config}"));
    }
}

#[test]
fn an_early_exit_says_what_its_graph_says() {
    let mut untied = tiny_config();
    untied["tie_word_embeddings"] = json!(false);
    for config in [tiny_config(), untied] {
        let target = checkpoint(&config);
        let method = EarlyExitMethod { target: target.path().to_owned(), shared_layers: 2 };
        let objective = objective(&Method::EarlyExit(method));
        let model = served(objective.as_ref(), target.path());
        let found = draft(&model, &mut model.decoder().new_cache(), &TEXT, true);
        assert_close(&found, &trained(objective.as_ref(), &TEXT)[0], "early-exit");
    }
}

#[test]
fn a_sorted_drafter_says_at_each_exit_what_its_graph_says_there() {
    let target = checkpoint(&tiny_config());
    let exits = vec![1, 3, 4];
    let method = SortedMethod::new(target.path().to_owned(), exits.clone());
    let objective = objective(&Method::Sorted(method));
    let model = served(objective.as_ref(), target.path());
    assert_eq!(model.exits(), exits);
    let trained = trained(objective.as_ref(), &TEXT);
    let first = draft(&model, &mut model.decoder().new_cache(), &TEXT, false);
    assert_close(&first, &trained[0], "first exit");
    let last = draft(&model, &mut model.decoder().new_cache(), &TEXT, true);
    assert_close(&last, &trained[2], "last exit");
    // The last token alone goes deep: what was left out before it is filled in.
    let mut cache = model.decoder().new_cache();
    draft(&model, &mut cache, &TEXT[..22], false);
    cache.keep_path(&(0..22).map(|row| 2 * row).collect::<Vec<_>>()).unwrap();
    assert_close(&draft(&model, &mut cache, &TEXT[22..], true), &trained[2][22..], "caught up");
}

/// The residual stream of a drafter at every token of the text, rounds beginning at `starts`.
fn draft_states(model: &DraftModel, starts: &[usize], states: &[f32]) -> Vec<Vec<f32>> {
    let (mut work, mut cache) = (Workspace::new(1), model.decoder().new_cache());
    let mut found = Vec::new();
    for block in starts.chunk_by(|a, b| a == b) {
        let (first, end) = (found.len(), found.len() + block.len());
        let rows = Row::chain(&TEXT[first..end], 0);
        let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::All }];
        let output = model.forward(&mut work, &mut segments, |_| true).unwrap();
        found.extend((0..block.len()).map(|row| output.tap(0, 0, row).to_vec()));
        if model.kind().tapped_layer().is_some() {
            let (tokens, states) = (&TEXT[first..end], &states[first * 32..end * 32]);
            let mut sequences = [States { cache: &mut cache, tokens, states }];
            model.decoder().append_states(&mut work, &mut sequences).unwrap();
        } else {
            cache.keep_path(&(0..block.len()).collect::<Vec<_>>()).unwrap();
        }
    }
    found
}

#[test]
fn a_predictor_expects_what_its_graph_expects() {
    let target = checkpoint(&tiny_config());
    let mut shallow = tiny_config();
    shallow["num_hidden_layers"] = json!(2);
    let edd = |sight| Method::Edd(EddMethod { sight, ..EddMethod::new(target.path().to_owned()) });
    let [states, beside] = [Sight::States, Sight::TokensAndStates].map(|sight| saved(objective(&edd(sight)).as_ref()));
    for (drafter, tapped) in [checkpoint(&shallow), states, beside].iter().zip([5, 2, 2]) {
        let method = CaliTsMethod { target: target.path().to_owned(), drafter: drafter.path().to_owned() };
        let objective = objective(&Method::CaliTs(method));
        let predictor = Predictor::open(saved(objective.as_ref()).path()).unwrap();
        assert_eq!(predictor.config().tapped_layer, tapped);
        let states = hidden_states(target.path(), &TEXT, tapped);
        let starts = Blocks { min: 1, max: 10 }.cut(&Batch::of_texts(&[TEXT.to_vec()]), &mut draws());
        let model = DraftModel::open(drafter.path(), None, &LoadOptions::default()).unwrap();
        let draft_states = draft_states(&model, &starts, &states);
        let expected = &trained(objective.as_ref(), &TEXT)[0];
        let mut seen = 0;
        for position in (0..TEXT.len()).filter(|position| starts[*position] > 0) {
            let (step, processed) = (position - starts[position] + 1, starts[position] - 1);
            let theta = predictor.theta(step, &states[processed * 32..][..32], &draft_states[position]).unwrap();
            let logit = f64::from(expected[position][1] - expected[position][0]);
            assert!((theta - 1.0 / (1.0 + (-logit).exp())).abs() < 1e-5, "position {position}: {theta}, {logit}");
            seen += 1;
        }
        assert!(seen > 5);
    }
}

#[test]
fn a_drafter_of_other_tokens_is_refused() {
    let (target, drafter) = (checkpoint(&tiny_config()), checkpoint(&tiny_config()));
    let path = drafter.path().join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    tokenizer["model"]["vocab"]["a token of its own"] = json!(4096);
    fs::write(&path, tokenizer.to_string()).unwrap();
    let method = CaliTsMethod { target: target.path().to_owned(), drafter: drafter.path().to_owned() };
    let setting = Setting { dtype: DType::F32, place: processor(), seed: 4, length: 8 };
    let fault = open(&Method::CaliTs(method), &setting).err().unwrap().to_string();
    assert!(fault.contains(" has the tokenizer ") && fault.contains(", expected "), "{fault}");
}
