//! Looking for bytes that break a property, the same ones each time.

use crate::attempt::{Attempt, Failure};
use crate::dice::Dice;
use crate::mutate::mutated;
use crate::target::Target;

/// Decides all cases.
const SEED: u64 = 7;

/// The input of a number: first come the seeds as they are, then changed ones.
pub fn case(target: &Target, seeds: &[Vec<u8>], number: usize) -> Vec<u8> {
    if let Some(seed) = seeds.get(number) {
        return seed.clone();
    }
    let name = target.name.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    mutated(seeds, &mut Dice::of(SEED, name % 1000, number))
}

/// Tries all seeds and as many changed ones as the target says: the number of the first case that fails, and why.
///
/// # Errors
/// Where there is such a case.
pub fn search(target: &Target) -> Result<(), (usize, Failure)> {
    let seeds = (target.seeds)();
    for number in 0..seeds.len() + target.tries {
        let bytes = case(target, &seeds, number);
        Attempt { target, bytes: &bytes }.make().map_err(|failure| (number, failure))?;
    }
    Ok(())
}
