//! The k best of a vocabulary without sorting it.

use std::cmp::Ordering;

use crate::Token;
use crate::numeric::LANES;

/// A token with the value that ranks it.
pub(crate) type Ranked = (Token, f32);

/// Up to this many are kept by insertion while scanning; more are selected and sorted.
const INSERTION_MAX: usize = 64;

/// The `k` greatest of `values`, best first, equal values by smaller token; NaN must not occur.
pub(crate) fn top(values: &[f32], k: usize) -> Vec<Ranked> {
    if k <= INSERTION_MAX { insert_top(values, k) } else { sort_top(values, k) }
}

/// Keeps the best so far in order; a whole block is skipped when nothing in it can enter.
fn insert_top(values: &[f32], k: usize) -> Vec<Ranked> {
    let mut best: Vec<Ranked> = Vec::with_capacity(k + 1);
    for (block, chunk) in values.chunks(LANES).enumerate() {
        let floor = entry_floor(&best, k);
        if !chunk.iter().fold(false, |any, &value| any | (value > floor)) {
            continue;
        }
        for (lane, &value) in chunk.iter().enumerate() {
            if value > entry_floor(&best, k) {
                insert(&mut best, ((block * LANES + lane) as Token, value), k);
            }
        }
    }
    best
}

/// What a value must exceed to enter. Minus infinity never enters: it means impossible.
fn entry_floor(best: &[Ranked], k: usize) -> f32 {
    match best.last() {
        Some(&(_, worst)) if best.len() >= k => worst,
        _ if k == 0 => f32::INFINITY,
        _ => f32::NEG_INFINITY,
    }
}

fn insert(best: &mut Vec<Ranked>, entry: Ranked, k: usize) {
    let place = best.partition_point(|&(_, value)| value >= entry.1);
    best.insert(place, entry);
    best.truncate(k);
}

fn sort_top(values: &[f32], k: usize) -> Vec<Ranked> {
    let mut all: Vec<Ranked> = values
        .iter()
        .enumerate()
        .filter(|&(_, &value)| value > f32::NEG_INFINITY)
        .map(|(token, &value)| (token as Token, value))
        .collect();
    if k < all.len() {
        all.select_nth_unstable_by(k, best_first);
        all.truncate(k);
    }
    all.sort_unstable_by(best_first);
    all
}

fn best_first(a: &Ranked, b: &Ranked) -> Ordering {
    let by_value = b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal);
    by_value.then(a.0.cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_best_come_first_and_equals_by_smaller_token() {
        assert_eq!(top(&[1.0, 3.0, 2.0, 3.0], 3), [(1, 3.0), (3, 3.0), (2, 2.0)]);
        assert_eq!(top(&[-0.0, 0.0], 2), [(0, -0.0), (1, 0.0)]);
    }

    #[test]
    fn what_is_impossible_is_never_among_the_best() {
        assert_eq!(top(&[f32::NEG_INFINITY, -5.0], 2), [(1, -5.0)]);
        assert_eq!(top(&[f32::NEG_INFINITY; 80], 70), []);
        assert_eq!(top(&[1.0], 0), []);
    }

    proptest! {
        #[test]
        fn inserting_and_sorting_agree(
            values in prop::collection::vec(-9_i8..9, 0..200), k in 0_usize..90
        ) {
            let values: Vec<f32> = values.into_iter().map(f32::from).collect();
            prop_assert_eq!(insert_top(&values, k), sort_top(&values, k));
        }
    }
}
