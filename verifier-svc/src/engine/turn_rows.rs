//! Which rows a turn has: of rounds first, then of prompts.

use std::num::NonZeroU32;

use espalier_service_kit::{Ask, Shares};

/// Rows of one turn after which no further sequence joins it.
pub const TURN_ROWS_MAX: usize = 512;

/// Rows of one turn that may go to prompts, so that trees need not wait long for them.
const PROMPT_ROWS_MAX: usize = 256;

/// Chooses how much of which prompts is read in a turn that has `rows` of rounds already. `asks` are the tokens that
/// sequences have not read; `read` is told how many of them one reads, and gives the rows of the round that follows.
///
/// Those come first that would be done first if all were read side by side: short ones are not kept waiting by long ones,
/// and of equal ones the oldest is not kept waiting by others. The first has room whatever else runs: rounds could fill all
/// turns.
pub fn choose_prompts<K: Ord + Clone>(
    shares: &mut Shares<K>,
    mut asks: Vec<Ask<K>>,
    mut rows: usize,
    mut read: impl FnMut(Ask<K>) -> usize,
) {
    asks.retain(|ask| ask.amount > 0);
    shares.begin(asks.iter().map(|ask| (ask.key.clone(), NonZeroU32::MIN)));
    asks.sort_by_key(|ask| (shares.done(ask), ask.key.clone()));
    let (mut room, mut left) = (PROMPT_ROWS_MAX, Vec::new());
    for Ask { key, amount } in asks {
        let is_first = room == PROMPT_ROWS_MAX;
        let count = if is_first || rows < TURN_ROWS_MAX { amount.min(room) } else { 0 };
        if count < amount {
            left.push(key.clone());
        }
        if count > 0 {
            shares.give(&key, count);
            room -= count;
            rows += count + read(Ask { key, amount: count });
        }
    }
    shares.end(left);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of prompts of these lengths in a turn with so many rows, by their numbers.
    fn read(lengths: &[usize], rows: usize) -> Vec<(usize, usize)> {
        let asks = lengths.iter().enumerate().map(|(key, &amount)| Ask { key, amount }).collect();
        let mut found = Vec::new();
        choose_prompts(&mut Shares::default(), asks, rows, |Ask { key, amount }| {
            found.push((key, amount));
            1
        });
        found
    }

    #[test]
    fn short_prompts_come_first_and_all_share_what_prompts_may_have() {
        assert_eq!(read(&[200, 30, 0, 100], 0), [(1, 30), (3, 100), (0, 126)]);
    }

    #[test]
    fn a_full_turn_reads_one_prompt_nevertheless() {
        assert_eq!(read(&[40, 30], TURN_ROWS_MAX), [(1, 30)]);
    }
}
