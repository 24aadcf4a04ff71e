//! A token's logits are the same bits however it is run: alone or with others, in a tree or in a chain, in a batch or
//! not.

use std::path::{Path, PathBuf};

use espalier_model::{Asked, Checkpoint, Decoder, KvCache, LoadOptions, Logits, Row, Segment, Workspace};
use proptest::prelude::*;

use crate::{options, workspaces};

fn manifest(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn load(path: &str) -> Decoder {
    load_with(path, options())
}

pub(crate) fn load_with(path: &str, options: LoadOptions) -> Decoder {
    Decoder::load(&Checkpoint::open(manifest(path)).unwrap(), &options).unwrap()
}

/// A bf16 checkpoint and f32 ones, of several architectures.
const CHECKPOINTS: [&str; 4] =
    ["../../models/small", "tests/golden/qwen3", "tests/golden/gpt-neox", "tests/golden/llama3-rope-scaling"];

/// The logits of all rows, as bits.
pub(crate) fn run(decoder: &Decoder, work: &mut Workspace, cache: &mut KvCache, rows: &[Row]) -> Vec<Vec<u32>> {
    let segment = Segment { cache, rows, logits: Logits::All };
    let output = decoder.forward(work, &mut [segment], Asked::default()).unwrap();
    (0..rows.len()).map(|row| output.logits(0, row).iter().map(|v| v.to_bits()).collect()).collect()
}

fn keep_all(cache: &mut KvCache) {
    cache.keep_path(&(0..cache.tail_len()).collect::<Vec<_>>()).unwrap();
}

/// Plain decoding of given tokens: one forward pass for each.
fn one_by_one(decoder: &Decoder, work: &mut Workspace, tokens: &[u32]) -> Vec<Vec<u32>> {
    let mut cache = decoder.new_cache();
    let step = |&token: &u32| {
        let logits = run(decoder, work, &mut cache, &[Row { token, parent: None }]).remove(0);
        keep_all(&mut cache);
        logits
    };
    tokens.iter().map(step).collect()
}

pub(crate) fn text(length: usize, seed: u32) -> Vec<u32> {
    (0..length as u32).map(|i| (i + seed).wrapping_mul(2_654_435_761) % 500).collect()
}

/// Decodes a text token by token, and then so many at once by all means that this machine has.
pub(crate) fn any_number_of_rows_gives_the_bits_of_one(decoder: &Decoder, tokens: &[u32], numbers: &[usize]) {
    let alone = one_by_one(decoder, &mut Workspace::new(1), tokens);
    for mut work in workspaces() {
        for &rows in numbers {
            let mut cache = decoder.new_cache();
            let mut together = Vec::new();
            for chunk in tokens.chunks(rows) {
                together.extend(run(decoder, &mut work, &mut cache, &Row::chain(chunk, 0)));
                keep_all(&mut cache);
            }
            let by = format!("{}, {} threads, {}", work.instruction_set(), work.threads(), decoder.arithmetic());
            assert!(together == alone, "{rows} rows, {by}");
        }
    }
}

#[test]
fn any_number_of_rows_gives_the_bits_of_one_row() {
    for path in CHECKPOINTS {
        let tokens = text(if path.contains("small") { 40 } else { 90 }, 1);
        any_number_of_rows_gives_the_bits_of_one(&load(path), &tokens, &[2, 3, 7, 13, 25, 90]);
    }
}

/// The last layer is run for rows that want logits only, unless it is tapped.
#[test]
fn what_is_asked_of_a_prompt_changes_nothing_after_it() {
    let prompts = [text(60, 1), text(33, 2), text(8, 3)];
    for path in CHECKPOINTS {
        let decoder = load(path);
        let last = decoder.layers();
        for mut work in workspaces() {
            let expected: Vec<_> = prompts.iter().map(|text| one_by_one(&decoder, &mut work, text)).collect();
            for taps in [&[][..], &[last], &[last - 1, last]] {
                let mut caches = [(); 3].map(|()| decoder.new_cache());
                let mut pass = |chunks: [&[u32]; 3], logits: [Logits; 3]| {
                    let rows = chunks.map(|tokens| Row::chain(tokens, 0));
                    let segments = caches.iter_mut().zip(&rows).zip(logits);
                    let mut segments: Vec<_> =
                        segments.map(|((cache, rows), logits)| Segment { cache, rows, logits }).collect();
                    let output = decoder.forward(&mut work, &mut segments, Asked { taps, ..Asked::default() }).unwrap();
                    let bits = |segment, answer| output.logits(segment, answer).iter().map(|v| v.to_bits()).collect();
                    let answers = [0, 1, 2].map(|i| {
                        let count = match logits[i] {
                            Logits::None => 0,
                            Logits::Last(count) => count,
                            Logits::All => chunks[i].len(),
                        };
                        (0..count).map(|answer| bits(i, answer)).collect::<Vec<Vec<u32>>>()
                    });
                    caches.iter_mut().for_each(keep_all);
                    answers
                };
                let [first, second, third] = &prompts;
                let none = pass([&first[..50], &second[..20], &third[..1]], [Logits::None; 3]);
                assert!(none.iter().all(Vec::is_empty));
                let some = [Logits::Last(1), Logits::None, Logits::Last(3)];
                let found = pass([&first[50..59], &second[20..32], &third[1..7]], some);
                assert!(
                    found == [vec![expected[0][58].clone()], vec![], expected[2][4..7].to_vec()],
                    "{path} {taps:?}"
                );
                let found = pass([&first[59..], &second[32..], &third[7..]], [Logits::All; 3]);
                let ends = expected.iter().map(|rows| vec![rows[rows.len() - 1].clone()]);
                assert!(found.to_vec() == ends.collect::<Vec<_>>(), "{path} {taps:?}");
            }
        }
    }
}

#[test]
fn sequences_of_a_batch_do_not_touch_each_other() {
    let decoder = load("tests/golden/qwen3");
    for mut work in workspaces() {
        let texts = [text(70, 1), text(5, 2), text(33, 3)];
        let alone: Vec<_> =
            texts.iter().map(|t| run(&decoder, &mut work, &mut decoder.new_cache(), &Row::chain(t, 0))).collect();
        let mut caches = [decoder.new_cache(), decoder.new_cache(), decoder.new_cache()];
        let rows = texts.each_ref().map(|t| Row::chain(t, 0));
        let mut segments: Vec<Segment<'_>> =
            caches.iter_mut().zip(&rows).map(|(cache, rows)| Segment { cache, rows, logits: Logits::All }).collect();
        let output = decoder.forward(&mut work, &mut segments, Asked::default()).unwrap();
        for (segment, alone) in alone.iter().enumerate() {
            for (row, alone) in alone.iter().enumerate() {
                let bits: Vec<u32> = output.logits(segment, row).iter().map(|v| v.to_bits()).collect();
                assert!(&bits == alone, "sequence {segment}, row {row}, {}", work.instruction_set());
            }
        }
    }
}

/// Parents of a tree below the root, as tail rows: row 0 is the root.
fn trees() -> impl Strategy<Value = Vec<(usize, u32)>> {
    proptest::collection::vec((0..1000_usize, 0..500_u32), 1..40)
        .prop_map(|nodes| nodes.into_iter().enumerate().map(|(i, (p, token))| (p % (i + 1), token)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_node_of_a_tree_has_the_bits_of_its_path_alone(
        nodes in trees(), prefix in 1..150_usize, level in 1..9_usize, which in 1..4_usize,
    ) {
        let decoder = load(CHECKPOINTS[which]);
        let mut work = Workspace::new(2);
        let mut cache = decoder.new_cache();
        let before = text(prefix, 4);
        run(&decoder, &mut work, &mut cache, &Row::chain(&before, 0));
        keep_all(&mut cache);
        let root = Row { token: 9, parent: None };
        let rows: Vec<Row> = [root].into_iter()
            .chain(nodes.iter().map(|&(parent, token)| Row { token, parent: Some(parent) }))
            .collect();
        // The tree grows level by level, as a drafter grows it.
        let bits: Vec<_> = rows.chunks(level).flat_map(|rows| run(&decoder, &mut work, &mut cache, rows)).collect();

        let path = |mut row: usize| {
            let mut path = vec![row];
            while let Some(parent) = rows[row].parent {
                path.insert(0, parent);
                row = parent;
            }
            path
        };
        let deepest = (0..rows.len()).max_by_key(|&row| path(row).len()).unwrap();
        for row in [rows.len() - 1, deepest, 0] {
            let tokens: Vec<u32> = before.iter().copied().chain(path(row).into_iter().map(|r| rows[r].token)).collect();
            let alone = one_by_one(&decoder, &mut work, &tokens);
            prop_assert!(alone.last() == Some(&bits[row]), "row {row} of {}", rows.len());
        }

        // Keeping a path is the same as never having drafted anything else.
        let kept = path(deepest);
        cache.keep_path(&kept).unwrap();
        let tokens: Vec<u32> = before.iter().copied().chain(kept.iter().map(|&r| rows[r].token)).chain([11]).collect();
        let next = run(&decoder, &mut work, &mut cache, &[Row { token: 11, parent: None }]);
        prop_assert!(one_by_one(&decoder, &mut work, &tokens).last() == next.first());
    }
}

#[test]
fn impossible_rows_are_refused() {
    let decoder = load("tests/golden/qwen3");
    let (vocab, context) = (decoder.config().vocab as u32, decoder.config().context);
    let mut work = Workspace::new(1);
    let mut refusal = |rows: &[Row], depth: Asked<'_>| {
        let mut cache = decoder.new_cache();
        let mut segments = [Segment { cache: &mut cache, rows, logits: Logits::All }];
        decoder.forward(&mut work, &mut segments, depth).err().unwrap().to_string()
    };
    let row = |token, parent| Row { token, parent };
    let whole = Asked::default();
    assert_eq!(refusal(&[row(vocab, None)], whole), format!("token {vocab} is outside the vocabulary of {vocab}"));
    assert_eq!(refusal(&[row(1, None), row(1, Some(1))], whole), "parent 1 is not one of the tail's 1 rows");
    assert_eq!(refusal(&[], whole), "a forward pass needs at least one token");
    let long = vec![row(1, None); context + 1];
    assert_eq!(refusal(&long, whole), format!("{} positions are needed, but there is room for {context}", context + 1));
    assert!(refusal(&vec![row(1, None); 5000], whole).contains("the limit is 4096"));
    assert!(
        refusal(&[row(1, None)], Asked { exit_after: Some(0), ..Asked::default() })
            .starts_with("0 layers were asked for")
    );
    assert!(refusal(&[row(1, None)], Asked { taps: &[9], ..Asked::default() }).starts_with("9 layers were asked for"));
}

#[test]
fn an_exit_equals_the_model_cut_there_and_taps_are_its_residual_stream() {
    let path = manifest("../../models/small");
    let whole = load("../../models/small");
    let options = LoadOptions { layers: Some(3), ..options() };
    let cut = Decoder::load(&Checkpoint::open(path).unwrap(), &options).unwrap();
    let (mut work, rows) = (Workspace::new(2), Row::chain(&text(9, 5), 0));
    let mut tap_of = |decoder: &Decoder, depth: Asked<'_>| {
        let mut cache = decoder.new_cache();
        let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) }];
        let output = decoder.forward(&mut work, &mut segments, depth).unwrap();
        (output.logits(0, 0).to_vec(), output.tap(0, 0, 8).to_vec())
    };
    let exit = tap_of(&whole, Asked { exit_after: Some(3), taps: &[2], ..Asked::default() });
    assert_eq!(exit, tap_of(&cut, Asked { taps: &[2], ..Asked::default() }));
    assert_ne!(exit.0, tap_of(&whole, Asked { taps: &[2], ..Asked::default() }).0);
}
