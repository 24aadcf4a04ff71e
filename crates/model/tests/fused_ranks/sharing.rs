//! What ranks compute together is what one computes alone, but for the order of sums.

use espalier_model::{Asked, Decoder, DeviceKind, KvCache, LoadOptions, Logits, ModelConfig, Row, Segment, Workspace};

use crate::golden::load;
use crate::shared_by;

/// Sizes that ranks cannot share evenly, and heads that two of six ranks have in common.
const UNEVEN: &str = r#"{"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 96, "intermediate_size": 157,
    "vocab_size": 301, "num_attention_heads": 6, "num_key_value_heads": 2, "tie_word_embeddings": true}"#;

/// Tokens of a prompt that is read in a pass of its own.
const PROMPT: usize = 33;

fn uneven(options: &LoadOptions) -> Decoder {
    Decoder::random(&ModelConfig::parse(UNEVEN, None).unwrap(), 3, options, |_, _| {}).unwrap()
}

fn tokens() -> Vec<u32> {
    (0..40_u32).map(|i| i.wrapping_mul(2_654_435_761) % 300).collect()
}

/// The logits of rows, and so their bits.
fn forward(decoder: &Decoder, cache: &mut KvCache, rows: &[Row]) -> Vec<Vec<f32>> {
    let mut work = Workspace::new(1);
    let segment = Segment { cache, rows, logits: Logits::All };
    let output = decoder.forward(&mut work, &mut [segment], Asked::default()).unwrap();
    (0..rows.len()).map(|row| output.logits(0, row).to_vec()).collect()
}

/// Reads a prompt, and keeps it.
fn read(decoder: &Decoder) -> KvCache {
    let mut cache = decoder.new_cache();
    forward(decoder, &mut cache, &Row::chain(&tokens()[..PROMPT], 0));
    cache.keep_path(&(0..PROMPT).collect::<Vec<_>>()).unwrap();
    cache
}

/// The logits of what follows the prompt.
fn logits(decoder: &Decoder) -> Vec<f32> {
    forward(decoder, &mut read(decoder), &Row::chain(&tokens()[PROMPT..], 0)).concat()
}

fn furthest(found: &[f32], exact: &[f32]) -> f32 {
    assert_eq!(found.len(), exact.len());
    found.iter().zip(exact).map(|(found, exact)| (found - exact).abs()).fold(0.0, f32::max)
}

#[test]
fn ranks_and_stages_are_no_further_off_than_one() {
    let exact = uneven(&LoadOptions::default());
    let exact = logits(&exact);
    let alone = furthest(&logits(&uneven(&shared_by("1", "1"))), &exact);
    for (ranks, stages) in [("2", "1"), ("6", "1"), ("2", "2")] {
        let shared = uneven(&shared_by(ranks, stages));
        assert_eq!(shared.computes_in(), format!("bf16@{ranks}xemulated"));
        let off = furthest(&logits(&shared), &exact);
        assert!(off > 0.0 && off < 1.5 * alone, "{ranks} ranks in {stages} stages are off by {off}, one by {alone}");
    }
}

#[test]
fn every_architecture_is_shared() {
    for name in ["qwen3", "gpt-neox", "llama3-rope-scaling"] {
        let exact = logits(&load(name, &LoadOptions::default()));
        let [alone, shared] = ["1", "4"].map(|ranks| furthest(&logits(&load(name, &shared_by(ranks, "1"))), &exact));
        assert!(shared > 0.0 && shared < 1.5 * alone, "{name}: off by {shared}, one rank by {alone}");
    }
}

#[test]
fn a_row_has_its_bits_however_it_is_run() {
    let decoder = uneven(&shared_by("2", "1"));
    let chain = Row::chain(&tokens()[PROMPT..], 0);
    let together = forward(&decoder, &mut read(&decoder), &chain);
    let mut cache = read(&decoder);
    // Three times the same list of work: launched, noted down as a graph, and replayed.
    for (row, expected) in tokens()[PROMPT..].iter().zip(&together) {
        let alone = forward(&decoder, &mut cache, &[Row { token: *row, parent: None }]);
        assert_eq!(alone[0], *expected);
        let kept = [cache.tail_len() - 1];
        cache.keep_path(&kept).unwrap();
    }
}

#[test]
fn a_path_that_is_kept_is_kept_by_all_ranks() {
    let decoder = uneven(&shared_by("2", "1"));
    let (tokens, row) = (tokens(), |token, parent| Row { token, parent });
    let [a, b, c] = [tokens[PROMPT], tokens[PROMPT + 1], tokens[PROMPT + 2]];
    // What is kept moves into the places of what is not.
    let tree = [row(a, None), row(9, Some(0)), row(10, Some(1)), row(b, Some(0)), row(c, Some(3))];
    let mut cache = read(&decoder);
    let drafted = forward(&decoder, &mut cache, &tree);
    cache.keep_path(&[0, 3, 4]).unwrap();
    let after = forward(&decoder, &mut cache, &[row(11, None)]);
    let chain = forward(&decoder, &mut read(&decoder), &Row::chain(&[a, b, c, 11], 0));
    assert_eq!([&drafted[0], &drafted[3], &drafted[4], &after[0]], [&chain[0], &chain[1], &chain[2], &chain[3]]);
}

#[test]
fn a_cache_elsewhere_is_refused_and_the_next_pass_is_well() {
    let decoder = uneven(&shared_by("2", "1"));
    let mut elsewhere = uneven(&LoadOptions { device: DeviceKind::Cpu, ..LoadOptions::default() }).new_cache();
    let (mut work, rows) = (Workspace::new(1), Row::chain(&[1, 2], 0));
    let segment = Segment { cache: &mut elsewhere, rows: &rows, logits: Logits::None };
    let fault = decoder.forward(&mut work, &mut [segment], Asked::default()).err().unwrap();
    assert_eq!(fault.to_string(), "a cache has its keys and values on another device than the model");
    assert_eq!(logits(&decoder), logits(&decoder));
}

#[test]
fn more_rows_than_go_through_a_layer_at_once_have_the_same_bits() {
    const ROWS: usize = 530;
    let decoder = uneven(&shared_by("2", "1"));
    let tokens: Vec<u32> = (0..ROWS as u32).map(|i| i.wrapping_mul(2_654_435_761) % 300).collect();
    let last = |at_once: usize| {
        let (mut work, mut cache, mut last) = (Workspace::new(1), decoder.new_cache(), Vec::new());
        for some in tokens.chunks(at_once) {
            let rows = Row::chain(some, cache.tail_len());
            let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) };
            let output = decoder.forward(&mut work, &mut [segment], Asked::default()).unwrap();
            last = output.logits(0, 0).to_vec();
        }
        last
    };
    assert_eq!(last(ROWS), last(ROWS / 2));
}
