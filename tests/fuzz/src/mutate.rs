//! Inputs made of good ones.

use std::ops::Range;

use crate::dice::Dice;
use crate::spoil::spoil;

/// The most bytes of an input that is made.
const BYTES_MAX: usize = 1 << 20;

/// One of the seeds, changed in 1 to 4 ways.
pub fn mutated(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let Some(seed) = seeds.get(dice.below(seeds.len())) else { return Vec::new() };
    let mut bytes = seed.clone();
    for _ in 0..1 + dice.below(4) {
        let way = *dice.pick(&WAYS);
        way(&mut bytes, seeds, dice);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

type Way = fn(&mut Vec<u8>, &[Vec<u8>], &mut Dice);

const WAYS: [Way; 9] = [
    as_a_message,
    as_a_message,
    cut,
    |bytes, _, dice| overwrite_word(bytes, dice),
    insert_word,
    repeat,
    remove,
    splice,
    rewrite_number,
];

/// What counts, lengths and offsets are at their worst.
const WORDS: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0xffff,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 60,
    i64::MAX as u64,
    u64::MAX,
];

/// What numbers of texts are at their worst, and what is none.
const NUMBERS: [&str; 21] = [
    "0",
    "-1",
    "-0",
    "0.5",
    "1",
    "2",
    "255",
    "65537",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "1e-400",
    "1e308",
    "3e-300",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
];

/// Flips, sets and inserts bytes, repeats fields, claims lengths.
fn as_a_message(bytes: &mut Vec<u8>, _: &[Vec<u8>], dice: &mut Dice) {
    *bytes = spoil(bytes, dice);
}

fn cut(bytes: &mut Vec<u8>, _: &[Vec<u8>], dice: &mut Dice) {
    bytes.truncate(dice.below(bytes.len() + 1));
}

/// The last bytes of a word, of 1, 2, 4 or 8, in either order.
fn word(dice: &mut Dice) -> Vec<u8> {
    let (word, length) = (*dice.pick(&WORDS), *dice.pick(&[1, 2, 4, 8]));
    let mut bytes = word.to_le_bytes()[..length].to_vec();
    if dice.percent(20) {
        bytes.reverse();
    }
    bytes
}

fn overwrite_word(bytes: &mut [u8], dice: &mut Dice) {
    let (at, word) = (dice.below(bytes.len()), word(dice));
    bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = new);
}

fn insert_word(bytes: &mut Vec<u8>, _: &[Vec<u8>], dice: &mut Dice) {
    let (at, word) = (dice.below(bytes.len() + 1), word(dice));
    bytes.splice(at..at, word);
}

/// A part of at most so many bytes.
fn part(of: &[u8], most: usize, dice: &mut Dice) -> Range<usize> {
    let start = dice.below(of.len());
    start..(start + 1 + dice.below(most)).min(of.len())
}

/// A part comes again, once or often.
fn repeat(bytes: &mut Vec<u8>, _: &[Vec<u8>], dice: &mut Dice) {
    let part = part(bytes, 64, dice);
    let times = if dice.percent(20) { 1 + dice.below(1000) } else { 1 };
    let again = bytes[part.clone()].repeat(times);
    bytes.splice(part.end..part.end, again);
}

fn remove(bytes: &mut Vec<u8>, _: &[Vec<u8>], dice: &mut Dice) {
    let part = part(bytes, 64, dice);
    bytes.drain(part);
}

/// A part of any seed, in place of another part.
fn splice(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut Dice) {
    let other = dice.pick(seeds);
    let new = other[part(other, 256, dice)].to_vec();
    let place = part(bytes, 64, dice);
    let place = if dice.percent(50) { place.start..place.start } else { place };
    bytes.splice(place, new);
}

/// A number of a text becomes another, or something that is none.
fn rewrite_number(bytes: &mut Vec<u8>, _: &[Vec<u8>], dice: &mut Dice) {
    let from = dice.below(bytes.len());
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    let Some(start) = bytes.iter().skip(from).position(u8::is_ascii_digit).map(|at| from + at) else { return };
    let length = bytes.iter().skip(start).take_while(|byte| is_of_number(byte)).count();
    let number = dice.pick(&NUMBERS).bytes();
    bytes.splice(start..start + length, number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_dice_make_the_same_input_and_no_seed_is_too_short() {
        let seeds = [b"{\"a\": 12}".to_vec(), Vec::new(), vec![0; 40]];
        let made = |seed: u64| -> Vec<Vec<u8>> {
            (0..2000).map(|number| mutated(&seeds, &mut Dice::of(seed, 0, number))).collect()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
        assert!(made(1).iter().all(|input| input.len() <= BYTES_MAX));
        assert_eq!(mutated(&[], &mut Dice::of(1, 0, 0)), [0; 0]);
    }
}
