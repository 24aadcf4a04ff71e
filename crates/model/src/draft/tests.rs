#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use candle_core::Device;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::device_kind::DeviceKind;
use crate::rows::{Asked, Logits, Row, Segment};
use crate::states::States;
use crate::workspace::Workspace;

/// The folder of a small target of four layers, with a head of its own.
fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/qwen3")
}

fn card() -> Value {
    let checkpoint = Checkpoint::open(target()).unwrap();
    json!({
        "name": "qwen3", "fingerprint": crate::fingerprint(&target()).unwrap(), "tokenizer": "t",
        "layers": checkpoint.config.layers, "hidden_size": checkpoint.config.hidden,
    })
}

/// The target's configuration cut to so many layers.
fn cut(layers: usize) -> Value {
    let mut config: Value = serde_json::from_str(&Checkpoint::describe(&target()).unwrap()).unwrap();
    config["num_hidden_layers"] = json!(layers);
    config["layer_types"] = json!(vec!["full_attention"; layers]);
    config
}

fn edd() -> Value {
    json!({
        "model_type": "espalier_edd", "target": card(), "tapped_layer": 2, "block_lengths": [5, 10], "decoder": cut(1),
    })
}

/// The same, with states beside tokens.
fn beside() -> Value {
    let mut config = edd();
    config["tokens_beside_states"] = json!(true);
    config
}

fn early_exit() -> Value {
    json!({"model_type": "espalier_early_exit", "target": card(), "shared_layers": 2, "decoder": cut(1)})
}

/// A drafter's folder of this configuration, with the target's tensors.
fn folder(config: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    fs::copy(target().join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    folder
}

fn open(config: &Value, target: Option<&Path>) -> Result<DraftModel> {
    DraftModel::open(folder(config).path(), target, &LoadOptions::default())
}

/// A drafter of this configuration with the target's tensors, those of states being its second layer's.
fn open_beside(config: &Value, on: DeviceKind) -> DraftModel {
    let folder = folder(config);
    let file = folder.path().join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
    for (source, name) in [
        ("input_layernorm", "states_norm"),
        ("self_attn.k_proj", "self_attn.k_states_proj"),
        ("self_attn.v_proj", "self_attn.v_states_proj"),
    ] {
        let tensor = tensors[&format!("model.layers.1.{source}.weight")].clone();
        tensors.insert(format!("model.layers.0.{name}.weight"), tensor);
    }
    // The model of this folder may still be mapped.
    fs::remove_file(&file).unwrap();
    candle_core::safetensors::save(&tensors, &file).unwrap();
    DraftModel::open(folder.path(), None, &options(on)).unwrap()
}

fn options(device: DeviceKind) -> LoadOptions {
    LoadOptions { device, ..LoadOptions::default() }
}

/// A text of so many tokens, and states for them.
fn known(positions: usize) -> (Vec<u32>, Vec<f32>) {
    let tokens = (0..positions as u32).map(|i| i * i * 7 % 491 + 3).collect();
    (tokens, (0..positions * 64).map(|i| (i as f32 * 0.7).sin()).collect())
}

/// Positions by their tokens and by the target's states.
#[derive(Clone, Copy)]
struct Known<'a> {
    tokens: &'a [u32],
    states: &'a [f32],
}

/// The logits of every row, as bits, after positions that are known.
fn after(model: &DraftModel, work: &mut Workspace, known: Known<'_>, rows: &[Row]) -> Vec<Vec<u32>> {
    let Known { tokens, states } = known;
    let mut cache = model.decoder().new_cache();
    model.decoder().append_states(work, &mut [States { cache: &mut cache, tokens, states }]).unwrap();
    let mut segments = [Segment { cache: &mut cache, rows, logits: Logits::All }];
    let output = model.forward(work, &mut segments, |_| true).unwrap();
    (0..rows.len()).map(|row| bits(output.logits(0, row))).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The logits of the last of `tokens`, as bits.
fn logits(model: &DraftModel, tokens: &[u32]) -> Vec<u32> {
    let (mut cache, rows) = (model.decoder().new_cache(), Row::chain(tokens, 0));
    let mut work = Workspace::new(1);
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) }];
    bits(model.forward(&mut work, &mut segments, |_| true).unwrap().logits(0, 0))
}

#[test]
fn any_model_is_a_drafter_of_its_own() {
    let model = DraftModel::open(&target(), None, &LoadOptions::default()).unwrap();
    assert_eq!((model.kind(), model.exits()), (&DraftKind::Independent, &[4][..]));
    let half = LoadOptions { layers: Some(2), ..LoadOptions::default() };
    assert_eq!(DraftModel::open(&target(), None, &half).unwrap().exits(), [2]);
}

#[test]
fn a_model_with_several_exits_may_be_cut() {
    let mut config = cut(4);
    config["espalier_exits"] = json!([1, 2, 4]);
    let folder = folder(&config);
    let open = |layers| DraftModel::open(folder.path(), None, &LoadOptions { layers, ..LoadOptions::default() });
    let model = open(None).unwrap();
    assert_eq!((model.kind().name(), model.exits(), model.decoder().layers()), ("sorted", &[1, 2, 4][..], 4));
    let cut = open(Some(3)).unwrap();
    assert_eq!((cut.exits(), cut.decoder().layers()), (&[1, 2, 3][..], 3));
    assert!(matches!(open(Some(5)), Err(ModelError::Layers { asked: 5, available: 4 })));
}

fn a_state_that_is_an_embedding_is_a_token(on: DeviceKind) {
    let model = DraftModel::open(folder(&edd()).path(), Some(&target()), &options(on)).unwrap();
    assert_eq!((model.kind().name(), model.kind().tapped_layer(), model.exits()), ("edd", Some(2), &[1][..]));
    let (tokens, mut work) = ([7_u32, 300, 12, 9, 40], Workspace::new(2));
    let mut pass = model.decoder().begin(&mut work);
    pass.embed(&tokens[..4]).unwrap();
    let states = pass.states().unwrap().to_vec();
    drop(pass);
    let mut cache = model.decoder().new_cache();
    // What lies in the tail is forgotten when states come.
    let drafted = Row::chain(&[1, 2, 3], 0);
    let draft = |work: &mut Workspace, cache: &mut crate::KvCache, rows: &[Row]| {
        let mut segments = [Segment { cache, rows, logits: Logits::Last(1) }];
        bits(model.forward(work, &mut segments, |_| true).unwrap().logits(0, 0))
    };
    draft(&mut work, &mut cache, &drafted);
    let mut empty = model.decoder().new_cache();
    for (tokens, states) in [(&tokens[..1], &states[..64]), (&tokens[1..4], &states[64..])] {
        let nothing = States { cache: &mut empty, tokens: &[], states: &[] };
        let mut sequences = [States { cache: &mut cache, tokens, states }, nothing];
        model.decoder().append_states(&mut work, &mut sequences).unwrap();
    }
    assert_eq!((cache.committed(), cache.tail_len(), empty.committed()), (4, 0, 0));
    assert_eq!(draft(&mut work, &mut cache, &Row::chain(&tokens[4..], 0)), logits(&model, &tokens));
}

fn states_beside_tokens_count_and_so_do_the_tokens(on: DeviceKind) {
    let (model, mut work) = (open_beside(&beside(), on), Workspace::new(1));
    let (tokens, states) = known(100);
    let mut logits =
        |tokens: &[u32], states: &[f32]| after(&model, &mut work, Known { tokens, states }, &Row::chain(&[5], 0));
    let before = logits(&tokens, &states);
    for position in [0, 63, 64, 99] {
        let (mut other_tokens, mut other_states) = (tokens.clone(), states.clone());
        other_tokens[position] = 500;
        other_states[position * 64..][..64].fill(1.0);
        assert_ne!(logits(&other_tokens, &states), before, "token {position}");
        assert_ne!(logits(&tokens, &other_states), before, "state {position}");
    }
}

fn beside_states_a_tree_is_the_bits_of_its_chains(on: DeviceKind) {
    let model = open_beside(&beside(), on);
    let (tokens, states) = known(130);
    let row = |token, parent| Row { token, parent };
    let tree = [row(5, None), row(6, Some(0)), row(7, Some(0)), row(8, Some(2)), row(9, Some(1)), row(10, Some(3))];
    for set in Workspace::instruction_sets() {
        for positions in [1, 63, 64, 65, 130] {
            let mut work = Workspace::with_instruction_set(2, set).unwrap();
            let known = Known { tokens: &tokens[..positions], states: &states[..positions * 64] };
            let together = after(&model, &mut work, known, &tree);
            for (chain, at) in [(&[5, 7, 8, 10][..], [0, 2, 3, 5].as_slice()), (&[5, 6, 9], &[0, 1, 4])] {
                let alone = after(&model, &mut work, known, &Row::chain(chain, 0));
                assert!(at.iter().map(|row| &together[*row]).eq(&alone), "{set}, {positions} positions");
            }
        }
    }
}

fn states_come_to_the_same_all_at_once_or_one_by_one(on: DeviceKind) {
    let (model, mut work) = (open_beside(&beside(), on), Workspace::new(1));
    let (tokens, states) = known(70);
    let rows = Row::chain(&[5, 6], 0);
    let expected = after(&model, &mut work, Known { tokens: &tokens, states: &states }, &rows);
    let mut cache = model.decoder().new_cache();
    for (token, states) in tokens.chunks(1).zip(states.chunks(64)) {
        let rows = Row::chain(&[9, 9, 9], 0);
        model
            .forward(&mut work, &mut [Segment { cache: &mut cache, rows: &rows, logits: Logits::None }], |_| true)
            .unwrap();
        model.decoder().append_states(&mut work, &mut [States { cache: &mut cache, tokens: token, states }]).unwrap();
    }
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::All }];
    let output = model.forward(&mut work, &mut segments, |_| true).unwrap();
    assert_eq!((0..2).map(|row| bits(output.logits(0, row))).collect::<Vec<_>>(), expected);
}

fn a_window_hides_tokens_and_the_states_beside_them(on: DeviceKind) {
    let mut config = beside();
    config["decoder"]["use_sliding_window"] = json!(true);
    config["decoder"]["sliding_window"] = json!(20);
    config["decoder"]["layer_types"] = json!(["sliding_attention"]);
    let (model, mut work) = (open_beside(&config, on), Workspace::new(1));
    let (tokens, states) = known(100);
    // Rows at positions 100 and 101 see from 81 and 82 on.
    let rows = Row::chain(&[5, 6], 0);
    let before = after(&model, &mut work, Known { tokens: &tokens, states: &states }, &rows);
    for (position, seen) in [(0, [false, false]), (80, [false, false]), (81, [true, false]), (82, [true, true])] {
        let mut other = states.clone();
        other[position * 64..][..64].fill(1.0);
        let found = after(&model, &mut work, Known { tokens: &tokens, states: &other }, &rows);
        assert_eq!([found[0] != before[0], found[1] != before[1]], seen, "state {position}");
        let mut other = tokens.clone();
        other[position] = 500;
        let found = after(&model, &mut work, Known { tokens: &other, states: &states }, &rows);
        assert_eq!([found[0] != before[0], found[1] != before[1]], seen, "token {position}");
    }
}

/// Tests that every engine passes.
macro_rules! on_every_engine {
    ($($test:ident),*) => {
        mod packed { $(#[test] fn $test() { super::$test(super::DeviceKind::Cpu) })* }
        mod candle { $(#[test] fn $test() { super::$test(super::DeviceKind::Candle) })* }
    };
}

on_every_engine!(
    a_state_that_is_an_embedding_is_a_token,
    states_beside_tokens_count_and_so_do_the_tokens,
    beside_states_a_tree_is_the_bits_of_its_chains,
    states_come_to_the_same_all_at_once_or_one_by_one,
    a_window_hides_tokens_and_the_states_beside_them
);

#[test]
fn states_cannot_stand_beside_what_is_no_token_or_follow_what_has_none() {
    let (model, mut work) = (open_beside(&beside(), DeviceKind::Cpu), Workspace::new(1));
    let mut cache = model.decoder().new_cache();
    let mut refusal = |cache: &mut crate::KvCache, token| {
        let sequence = States { cache, tokens: &[token], states: &[0.0; 64] };
        model.decoder().append_states(&mut work, &mut [sequence]).unwrap_err().to_string()
    };
    assert_eq!(refusal(&mut cache, 512), "token 512 is outside the vocabulary of 512");
    assert_eq!(cache.committed(), 0);
    let rows = Row::chain(&[5], 0);
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::None }];
    model.forward(&mut Workspace::new(1), &mut segments, |_| true).unwrap();
    cache.keep_path(&[0]).unwrap();
    assert_eq!(refusal(&mut cache, 7), "the hidden states of position 0 are missing");
    assert_eq!(cache.committed(), 1);
    let fault = open(&beside(), None).err().unwrap().to_string();
    assert_eq!(fault, "tensor model.layers.0.states_norm.weight is missing from the checkpoint");
}

#[test]
fn impossible_states_are_refused_and_nothing_is_committed() {
    let model = open(&edd(), None).unwrap();
    let (mut work, mut cache) = (Workspace::new(1), model.decoder().new_cache());
    let mut refusal = |decoder: &Decoder, states: &[f32]| {
        let tokens = vec![0; states.len() / 64];
        let mut sequences = [States { cache: &mut cache, tokens: &tokens, states }];
        let fault = decoder.append_states(&mut work, &mut sequences).unwrap_err().to_string();
        assert_eq!(cache.committed(), 0);
        fault
    };
    let one = model.decoder();
    assert_eq!(refusal(one, &[0.0; 65]), "a list of hidden states has shape [65], expected [1, 64]");
    assert_eq!(refusal(one, &[]), "a forward pass needs at least one token");
    assert_eq!(refusal(one, &[0.0; 64 * 513]), "513 positions are needed, but there is room for 512");
    assert!(refusal(one, &vec![0.0; 64 * 5000]).contains("the limit is 4096"));
    let whole = DraftModel::open(&target(), None, &LoadOptions::default()).unwrap();
    let expected = "hidden states are read by a model of one layer, but this one has 4";
    assert_eq!(refusal(whole.decoder(), &[0.0; 64]), expected);
}

#[test]
fn an_early_exit_runs_the_target_s_first_layers() {
    let (model, whole) = (open(&early_exit(), Some(&target())).unwrap(), Checkpoint::open(target()).unwrap());
    assert_eq!((model.kind().name(), model.exits(), model.decoder().layers()), ("early-exit", &[3][..], 3));
    let whole = Decoder::load(&whole, &LoadOptions::default()).unwrap();
    let (mut work, rows) = (Workspace::new(1), Row::chain(&[5, 100, 30, 500], 0));
    let mut states = |decoder: &Decoder| {
        let mut cache = decoder.new_cache();
        let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::None }];
        let output = decoder.forward(&mut work, &mut segments, Asked { taps: &[2], ..Asked::default() }).unwrap();
        (0..4).map(|row| bits(output.tap(0, 0, row))).collect::<Vec<_>>()
    };
    assert_eq!(states(model.decoder()), states(&whole));
    // The target's tensors are in the drafter's folder too, so its own layer is the target's first.
    let mut shallow = cut(3);
    shallow["espalier_exits"] = json!([3]);
    assert_ne!(logits(&model, &[1, 2]), logits(&open(&shallow, None).unwrap(), &[1, 2]));
}

#[test]
fn a_folder_that_does_not_hold_together_is_refused() {
    let refusal = |config: &Value, target: Option<&Path>| {
        let folder = folder(config);
        let fault = DraftModel::open(folder.path(), target, &LoadOptions::default()).err().unwrap().to_string();
        fault.replace(&*folder.path().to_string_lossy(), "DIR")
    };
    let with = |mut config: Value, pointer: &str, value: Value| {
        *config.pointer_mut(pointer).unwrap() = value;
        config
    };
    let target = target();
    let target = Some(target.as_path());
    assert_eq!(
        refusal(&early_exit(), None),
        "DIR: it shares the first layers of its target qwen3, whose folder is needed"
    );
    for config in [edd(), early_exit()] {
        let other = with(config, "/target/fingerprint", json!("ab"));
        let fault = refusal(&other, target);
        assert!(fault.starts_with("DIR: it was made for the target qwen3 of fingerprint ab, not for "), "{fault}");
    }
    assert_eq!(refusal(&with(edd(), "/tapped_layer", json!(5)), target), "DIR: `tapped_layer` is 5, outside 1..=4");
    let shared = with(early_exit(), "/shared_layers", json!(4));
    assert_eq!(refusal(&shared, target), "DIR: `shared_layers` is 4, outside 1..=3");
    let deep = with(edd(), "/decoder", cut(2));
    assert_eq!(refusal(&deep, target), "DIR: its decoder's number of layers is 2, expected 1");
    let wide = with(edd(), "/target/hidden_size", json!(128));
    assert_eq!(refusal(&wide, target), "DIR: its decoder's width is 64, expected 128");
    let foreign = with(early_exit(), "/decoder/rope_theta", json!(5e5));
    assert_eq!(refusal(&foreign, target), "DIR: its layer and those of its target qwen3 are not of one shape");
    let unknown = refusal(&with(edd(), "/model_type", json!("espalier_x")), target);
    assert!(unknown.starts_with("DIR/config.json: unknown variant `espalier_x`"), "{unknown}");
    let silent = refusal(&json!({"model_type": "espalier_edd"}), target);
    assert!(silent.starts_with("DIR/config.json: missing field"), "{silent}");
    for exits in [json!([]), json!([0, 4]), json!([2, 1]), json!([2, 5])] {
        let mut config = cut(4);
        config["espalier_exits"] = exits.clone();
        let exits = exits.to_string().replace(',', ", ");
        let expected = format!("exits {exits} must rise within the model's 4 layers, and there must be one");
        assert_eq!(refusal(&config, None), expected);
    }
}

#[test]
fn what_is_of_use_to_one_target_cannot_be_cut() {
    let options = LoadOptions { layers: Some(1), ..LoadOptions::default() };
    let fault = DraftModel::open(folder(&edd()).path(), None, &options).err().unwrap().to_string();
    assert!(fault.ends_with("it cannot be cut to 1 layers"), "{fault}");
}
