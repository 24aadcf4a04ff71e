//! What transformers computed, and what the kernels on the processor compute.

use std::path::{Path, PathBuf};

use espalier_model::{
    Arithmetic, Asked, BestOf, Checkpoint, Decoder, DeviceKind, Golden, LoadOptions, Logits, Row, Segment, Workspace,
};
use espalier_speculation::Candidates;

use crate::options;

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

pub(crate) fn load(name: &str, options: &LoadOptions) -> Decoder {
    Decoder::load(&Checkpoint::open(folder(name)).unwrap(), options).unwrap()
}

fn in_bf16() -> LoadOptions {
    LoadOptions { arithmetic: Arithmetic::Bf16, ..options() }
}

/// The logits of a golden checkpoint's tokens, so many of them in a pass.
fn logits(decoder: &Decoder, tokens: &[u32], together: usize) -> Vec<f32> {
    let (mut work, mut cache) = (Workspace::new(1), decoder.new_cache());
    let run = |tokens: &[u32]| {
        let rows = Row::chain(tokens, cache.tail_len());
        let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::All };
        let output = decoder.forward(&mut work, &mut [segment], Asked::default()).unwrap();
        (0..rows.len()).flat_map(|row| output.logits(0, row).to_vec()).collect::<Vec<f32>>()
    };
    tokens.chunks(together).flat_map(run).collect()
}

#[test]
fn in_bf16_logits_are_no_further_off_than_those_of_transformers() {
    for name in ["llama3-rope-scaling", "qwen3", "gpt-neox"] {
        let golden = Golden::open(&folder(name)).unwrap();
        let found = golden.logits.compare(&logits(&load(name, &in_bf16()), &golden.input_ids, usize::MAX)).unwrap();
        let limit = golden.bf16_max_abs.unwrap();
        assert!(found.agrees_within(limit), "{name}: {found:?}, transformers are within {limit}");
        assert!(found.max_abs > 1e-3, "{name}: nothing was rounded");
    }
}

#[test]
fn in_bf16_too_a_row_has_its_bits_whatever_shares_its_pass() {
    let (golden, decoder) = (Golden::open(&folder("qwen3")).unwrap(), load("qwen3", &in_bf16()));
    let [alone, five, all] = [1, 5, usize::MAX].map(|together| logits(&decoder, &golden.input_ids, together));
    assert_eq!(alone, five);
    assert_eq!(alone, all);
}

#[test]
fn the_best_tokens_alone_are_those_of_all_logits() {
    let (golden, decoder) = (Golden::open(&folder("qwen3")).unwrap(), load("qwen3", &options()));
    let vocab = decoder.config().vocab;
    let (mut work, mut caches) = (Workspace::new(1), [decoder.new_cache(), decoder.new_cache()]);
    let rows = Row::chain(&golden.input_ids[..20], 0);
    let mut run = |best: &[Option<BestOf>]| {
        caches.iter_mut().for_each(|cache| cache.roll_back_to(0));
        let segment = |cache| Segment { cache, rows: &rows, logits: Logits::Last(7) };
        let mut segments: Vec<Segment<'_>> = caches.iter_mut().map(segment).collect();
        let output = decoder.forward(&mut work, &mut segments, Asked { best, ..Asked::default() }).unwrap();
        let rows = || [0, 1].into_iter().flat_map(|segment| (0..7).map(move |row| (segment, row)));
        let said = rows().map(|(segment, row)| output.best(segment, row).map(|best| best.unwrap().clone()));
        let logits = rows().map(|(segment, row)| output.logits(segment, row).to_vec());
        (said.collect::<Vec<_>>(), logits.collect::<Vec<_>>())
    };
    let (none, logits) = run(&[]);
    assert!(none.iter().all(Option::is_none));
    // Of the first sequence three of all tokens, of the second one of the first half.
    let asked = [BestOf { count: 3, vocab, noise: None }, BestOf { count: 1, vocab: vocab / 2, noise: None }];
    let (best, _) = run(&asked.map(Some));
    for (row, (best, logits)) in best.iter().zip(&logits).enumerate() {
        let BestOf { count, vocab, .. } = asked[row / 7];
        let whole = Candidates::from_logits(&logits[..vocab], count).unwrap();
        let found = best.as_ref().unwrap().candidates(count);
        assert_eq!(found.tokens().len(), count);
        for (found, whole) in found.tokens().iter().zip(whole.tokens()) {
            assert_eq!(found.0, whole.0);
            assert!((found.1 - whole.1).abs() < 1e-6, "{found:?} {whole:?}");
        }
        assert!((found.entropy() - whole.entropy()).abs() < 1e-5);
    }
    // One sequence's wish is none of the other's.
    let (mixed, all) = run(&asked.map(|best| Some(best).filter(|best| best.count == 3)));
    assert!(mixed[..7].iter().all(Option::is_some) && mixed[7..].iter().all(Option::is_none));
    assert_eq!(all[7..], logits[7..]);
}

#[test]
fn what_a_device_does_not_have_is_refused() {
    let checkpoint = Checkpoint::open(folder("qwen3")).unwrap();
    let refusal = |options: LoadOptions| Decoder::load(&checkpoint, &options).err().unwrap().to_string();
    assert_eq!(
        refusal(LoadOptions { arithmetic: Arithmetic::Int8, ..options() }),
        "int8 is computed by the processor alone; other devices compute in f32 or bf16"
    );
    if !cfg!(feature = "cuda") {
        assert_eq!(
            refusal(LoadOptions { device: DeviceKind::Cuda(0), ..options() }),
            "this program was built without the feature `cuda`, which device cuda:0 needs"
        );
    }
}
