//! How far ahead a sequence at rest has credit for tokens of plain decoding.

use std::time::Duration;

/// How much time of plain decoding a sequence has credit for, as far as its grants go: half of it may pass while an outcome
/// and new credit are on their way, over the network and through busy processors. More would put off the first tree after a
/// rest.
const CREDIT: Duration = Duration::from_millis(20);

/// Tokens of credit at the least, and before a round of plain decoding was measured, so that new credit is not a message
/// beside each token; and at the most.
const CREDIT_MIN: usize = 4;
const CREDIT_MAX: usize = 16;

/// The credit of one sequence, by what its rounds of plain decoding took lately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rest {
    /// What a round of plain decoding takes.
    plain: Option<Duration>,
}

impl Rest {
    /// A round of plain decoding took so long; the last four or so count.
    pub fn observe(&mut self, took: Duration) {
        self.plain = Some(self.plain.map_or(took, |plain| (plain * 3 + took) / 4));
    }

    /// Tokens that the sequence is to have credit for.
    pub fn credit(&self) -> usize {
        let tokens = |plain: Duration| CREDIT.as_nanos().div_ceil(plain.as_nanos().max(1)) as usize;
        self.plain.map_or(0, tokens).clamp(CREDIT_MIN, CREDIT_MAX)
    }

    /// Tokens of credit to give, beside rounds that are `under_way`. Every round commits at least one token: no more of them
    /// than tokens may follow.
    pub fn wanted(&self, remaining: usize, under_way: usize) -> usize {
        self.credit().min(remaining).saturating_sub(under_way)
    }

    /// Whether so few rounds are under way that it is time for more.
    pub fn is_low(&self, under_way: usize) -> bool {
        under_way <= self.credit() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_lasts_for_the_same_time_within_bounds() {
        let credit = |millis: &[u64]| {
            let mut rest = Rest::default();
            millis.iter().for_each(|&ms| rest.observe(Duration::from_millis(ms)));
            rest.credit()
        };
        assert_eq!([credit(&[]), credit(&[30]), credit(&[2]), credit(&[0])], [4, 4, 10, 16]);
        assert_eq!(credit(&[2, 6]), 7, "the mean moves by a quarter");
    }

    #[test]
    fn no_more_is_given_than_tokens_may_follow() {
        let rest = Rest::default();
        assert_eq!([rest.wanted(9, 0), rest.wanted(3, 0), rest.wanted(9, 1), rest.wanted(2, 2)], [4, 3, 3, 0]);
        assert_eq!([0, 2, 3].map(|under_way| rest.is_low(under_way)), [true, true, false]);
    }
}
