//! Decisions of kernels, run by the processor, against those of all logits.
#![allow(clippy::unwrap_used)]

use candle_core::Result as Computed;
use espalier_speculation::{GumbelMax, LogitsError, Sampler, Sampling, SplitMix64, Token, arg_max, gumbel};
use proptest::prelude::*;

use super::arguments::{Arguments, Decide};
use super::emulated::Emulated;
use super::machine::{Launch, Machine};
use super::sheet::Sheet;
use crate::device::best::BestOfRows;
use crate::pass::{NoiseAt, Told};

/// Of the noise under which tokens are nearly tied.
const SEED: u64 = 41;

type Decision = Result<Token, LogitsError>;

/// What the kernel finds of rows of `width` logits each; none where it takes all logits to decide.
fn decide(logits: &[f32], width: usize, wanted: &BestOfRows) -> Computed<Vec<Option<Decision>>> {
    let (mut machine, mut sheet, rows) = (Emulated::start()?, Sheet::default(), wanted.rows.len());
    let at = sheet.wanted(wanted, rows);
    let each = 3 + 2 * wanted.count;
    let [on_logits, on_sheet, said] =
        [logits.len(), sheet.fixed.len(), rows * each].map(|numbers| machine.allocate(numbers * 4));
    let (on_logits, on_sheet, said) = (on_logits?, on_sheet?, said?);
    machine.upload(on_logits.address, &logits.iter().flat_map(|logit| logit.to_le_bytes()).collect::<Vec<_>>())?;
    machine
        .upload(on_sheet.address, &sheet.fixed.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())?;
    let arguments = Decide {
        logits: on_logits.address,
        said: said.address,
        wanted: on_sheet.address + at as u64 * 4,
        vocabulary: width as i32,
        count: wanted.count as i32,
        first: 0,
        filler: 0,
    };
    machine.launch(&Launch {
        kernel: "decide",
        grid: [rows as u32, 1, 1],
        threads: 1024,
        lent: 0,
        arguments: arguments.bytes().to_vec(),
    })?;
    let heard = wanted.heard(&machine.download(said.address, rows * each)?, 1);
    let token = |told| match told {
        Told::Best(best) => best.arg_max(),
        Told::Winner(token) => token,
    };
    Ok(heard.into_iter().map(|told| told.map(|told| told.map(token))).collect())
}

fn rule(temperature: f64, seed: u64) -> GumbelMax {
    Sampler::new(Sampling::new(temperature, 0, 1.0, seed).unwrap(), &[], &[]).gumbel_max().unwrap()
}

/// Each row under the noise of a position of its own.
fn under_noise(rows: usize, vocab: usize, rule: GumbelMax) -> BestOfRows {
    let noises = (0..rows as u64).map(|position| Some(NoiseAt { rule, position })).collect();
    BestOfRows { rows: (0..rows as u32).collect(), vocabs: vec![vocab; rows], noises, count: 2 }
}

/// Logits between -20 and 20.
fn logits(count: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    (0..count).map(|_| (random.unit() * 40.0 - 20.0) as f32).collect()
}

/// Logits with which all tokens have nearly the same score at a position: what noise adds is taken away.
fn nearly_tied(temperature: f64, position: u64, count: usize) -> Vec<f32> {
    (0..count as Token).map(|token| (-gumbel(SEED, position, token) * temperature) as f32).collect()
}

#[test]
fn decisions_under_noise_are_those_of_all_logits() {
    // Some threads have several tokens, some of four each.
    let (rows, width, vocab) = (6, 5003, 5000);
    let mut untold = 0;
    for (seed, temperature) in [(1, 0.3), (2, 1.0), (3, 1.0), (4, 2.0), (5, 30.0), (6, 1e-30), (7, 1e6)] {
        let (logits, rule) = (logits(rows * width, seed), rule(temperature, seed));
        let found = decide(&logits, width, &under_noise(rows, vocab, rule)).unwrap();
        for (position, (row, found)) in logits.chunks_exact(width).zip(found).enumerate() {
            match found {
                Some(found) => assert_eq!(found, rule.decide(&row[..vocab], position as u64)),
                None => untold += 1,
            }
        }
    }
    assert_eq!(untold, 0, "near ties are rare");
}

#[test]
fn near_ties_are_decided_or_left_to_all_logits() {
    // Among so many there is noise that takes more than 24 bits of the uniform number to tell.
    let (width, temperature) = (100_003, 0.8);
    let rule = rule(temperature, SEED);
    let rows = [0.0, 9e-5, 1.5e-4, 2.5e-4, 1e-3];
    let mut logits: Vec<f32> = (0..5).flat_map(|row| nearly_tied(temperature, row, width)).collect();
    let noisiest = |row: &[f32]| (0..width).min_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
    let ahead: Vec<usize> = logits.chunks_exact(width).map(noisiest).collect();
    for (row, by) in rows.iter().enumerate() {
        logits[row * width + ahead[row]] += (by * temperature) as f32;
    }
    let found = decide(&logits, width, &under_noise(rows.len(), width, rule)).unwrap();
    assert_eq!(found[..3], [None; 3]);
    assert_eq!(found[3..], [ahead[3], ahead[4]].map(|token| Some(Ok(token as Token))));
    let decided = logits.chunks_exact(width).zip(0..).map(|(row, position)| rule.decide(row, position));
    assert!(decided.skip(3).map(Some).eq(found[3..].iter().copied()));
}

#[test]
fn what_decides_nothing_is_told_as_of_all_logits() {
    let rows = [
        [1.0, f32::NAN, 0.0, f32::INFINITY, 0.0],
        [f32::NEG_INFINITY; 5],
        [f32::NEG_INFINITY, f32::NEG_INFINITY, -3e38, f32::NEG_INFINITY, f32::NAN],
        [3e38, -3e38, f32::NEG_INFINITY, 0.0, f32::NAN],
    ];
    let found = decide(&rows.concat(), 5, &under_noise(4, 4, rule(1.0, 3))).unwrap();
    assert_eq!(found[0], Some(Err(LogitsError::NotFinite { token: 1 })));
    assert_eq!(found[1], Some(Err(LogitsError::NothingPossible { vocab: 4 })));
    assert_eq!(found[2], Some(Ok(2)), "what does not count may be faulty");
    assert_eq!(found[3], Some(Ok(0)));
}

#[test]
fn rows_with_and_without_noise_share_a_launch() {
    let (width, rule) = (3000, rule(1.0, 9));
    let logits = logits(4 * width, 9);
    let mut wanted = under_noise(4, width, rule);
    (wanted.noises[0], wanted.noises[2], wanted.count) = (None, None, 5);
    let found = decide(&logits, width, &wanted).unwrap();
    for (row, (logits, found)) in logits.chunks_exact(width).zip(found).enumerate() {
        let expected = if row % 2 == 0 { arg_max(logits) } else { rule.decide(logits, row as u64) };
        assert_eq!(found, Some(expected));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_row_is_decided_otherwise_than_of_all_logits(
        few in prop::collection::vec(prop_oneof![6 => -9_i8..9, 1 => Just(i8::MIN)], 1..60), repeated in 1_usize..50,
        temperature in 0.05_f64..3.0, seed: u64, position: u64, beyond in 0_usize..9
    ) {
        // Many equal logits, and impossible tokens among them.
        let of = |logit: i8| if logit == i8::MIN { f32::NEG_INFINITY } else { f32::from(logit) / 4.0 };
        let row: Vec<f32> = few.iter().map(|&logit| of(logit)).cycle().take(few.len() * repeated + beyond).collect();
        let (vocab, rule) = (row.len() - beyond, rule(temperature, seed));
        let noises = vec![Some(NoiseAt { rule, position })];
        let wanted = BestOfRows { rows: vec![0], vocabs: vec![vocab], noises, count: 2 };
        let found = decide(&row, row.len(), &wanted).unwrap()[0];
        prop_assert!(found.is_none() || found == Some(rule.decide(&row[..vocab], position)), "{:?}", found);
    }
}
