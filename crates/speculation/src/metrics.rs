//! How well speculation went: counts of a round, and the figures of a run.

/// The counts of one round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundRecord {
    /// Tokens the drafter produced, before any were dropped.
    pub drafted: usize,
    /// Nodes sent to the verifier.
    pub verified: usize,
    /// Depth of the deepest node sent.
    pub depth: usize,
    /// Drafted tokens committed; those cut off by a stop or the limit do not count.
    pub accepted: usize,
    /// Tokens committed, the target's own included.
    pub committed: usize,
}

/// Counts pooled over the rounds of a run, and the figures made of them.
///
/// Every figure is `None` where its denominator is 0. `v_d`, `r_d` and `hm` are those of the
/// EESD paper, appendix D.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    rounds: usize,
    sums: RoundRecord,
    accepted_by_depth: Vec<usize>,
}

impl Statistics {
    /// What somebody else counted: `sums` and `accepted_by_depth` over so many rounds.
    pub fn from_sums(rounds: usize, sums: RoundRecord, accepted_by_depth: Vec<usize>) -> Self {
        Self { rounds, sums, accepted_by_depth }
    }

    /// Adds one round.
    pub fn add(&mut self, round: &RoundRecord) {
        self.rounds += 1;
        self.add_sums(round);
        self.widen(round.accepted);
        for count in &mut self.accepted_by_depth[..round.accepted] {
            *count += 1;
        }
    }

    /// Adds every round of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.add_sums(&other.sums);
        self.widen(other.accepted_by_depth.len());
        for (count, more) in self.accepted_by_depth.iter_mut().zip(&other.accepted_by_depth) {
            *count += more;
        }
    }

    /// Number of rounds.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Each count summed over the rounds (`depth` too).
    pub fn sums(&self) -> &RoundRecord {
        &self.sums
    }

    /// How many rounds accepted a node of depth `i + 1`, at index `i`; ends with the deepest
    /// acceptance.
    pub fn accepted_by_depth(&self) -> &[usize] {
        &self.accepted_by_depth
    }

    /// Committed tokens a round: 1 in plain decoding.
    pub fn tau(&self) -> Option<f64> {
        ratio(self.sums.committed, self.rounds)
    }

    /// Acceptance of chains: accepted / drafted.
    pub fn alpha_chain(&self) -> Option<f64> {
        self.v_d()
    }

    /// Acceptance of trees: accepted / depth of the deepest node sent.
    pub fn alpha_tree(&self) -> Option<f64> {
        ratio(self.sums.accepted, self.sums.depth)
    }

    /// Nodes sent a round.
    pub fn mean_nodes(&self) -> Option<f64> {
        ratio(self.sums.verified, self.rounds)
    }

    /// Depth of the deepest node sent, a round; a round without nodes counts as 0.
    pub fn mean_depth(&self) -> Option<f64> {
        ratio(self.sums.depth, self.rounds)
    }

    /// Accepted / nodes verified.
    pub fn draft_efficiency(&self) -> Option<f64> {
        ratio(self.sums.accepted, self.sums.verified)
    }

    /// Accepted / drafted, before any node was dropped.
    pub fn v_d(&self) -> Option<f64> {
        ratio(self.sums.accepted, self.sums.drafted)
    }

    /// Accepted / committed.
    pub fn r_d(&self) -> Option<f64> {
        ratio(self.sums.accepted, self.sums.committed)
    }

    /// Harmonic mean of [`Self::v_d`] and [`Self::r_d`]; 0 if both are 0.
    pub fn hm(&self) -> Option<f64> {
        let (v_d, r_d) = (self.v_d()?, self.r_d()?);
        if v_d + r_d == 0.0 {
            return Some(0.0);
        }
        Some(2.0 * v_d * r_d / (v_d + r_d))
    }

    /// Tokens a second over `seconds`, relative to plain decoding by the same verifier of the
    /// same prompts, which took `plain_seconds` for `plain_tokens`.
    pub fn speedup(&self, seconds: f64, plain_tokens: usize, plain_seconds: f64) -> Option<f64> {
        let rate = self.sums.committed as f64 / seconds;
        let speedup = rate / (plain_tokens as f64 / plain_seconds);
        speedup.is_finite().then_some(speedup)
    }

    fn add_sums(&mut self, more: &RoundRecord) {
        self.sums.drafted += more.drafted;
        self.sums.verified += more.verified;
        self.sums.depth += more.depth;
        self.sums.accepted += more.accepted;
        self.sums.committed += more.committed;
    }

    fn widen(&mut self, depth: usize) {
        if self.accepted_by_depth.len() < depth {
            self.accepted_by_depth.resize(depth, 0);
        }
    }
}

fn ratio(numerator: usize, denominator: usize) -> Option<f64> {
    (denominator > 0).then(|| numerator as f64 / denominator as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: RoundRecord = RoundRecord { drafted: 5, verified: 5, depth: 5, accepted: 2, committed: 3 };
    const TREE: RoundRecord = RoundRecord { drafted: 20, verified: 10, depth: 4, accepted: 4, committed: 5 };

    fn pooled(rounds: &[RoundRecord]) -> Statistics {
        let mut statistics = Statistics::default();
        rounds.iter().for_each(|round| statistics.add(round));
        statistics
    }

    #[test]
    fn figures_are_pooled_over_rounds() {
        let statistics = pooled(&[CHAIN, TREE]);
        assert_eq!(statistics.tau(), Some(4.0));
        assert_eq!(statistics.alpha_chain(), Some(6.0 / 25.0));
        assert_eq!(statistics.alpha_tree(), Some(6.0 / 9.0));
        assert_eq!(statistics.draft_efficiency(), Some(6.0 / 15.0));
        assert_eq!(statistics.r_d(), Some(0.75));
        assert_eq!((statistics.mean_nodes(), statistics.mean_depth()), (Some(7.5), Some(4.5)));
        assert_eq!(statistics.speedup(2.0, 10, 5.0), Some(2.0));
    }

    #[test]
    fn the_histogram_counts_rounds_that_reached_a_depth() {
        assert_eq!(pooled(&[CHAIN, TREE, RoundRecord::default()]).accepted_by_depth(), [2, 2, 1, 1]);
    }

    #[test]
    fn without_a_denominator_a_figure_is_undefined() {
        let nothing = Statistics::default();
        assert_eq!((nothing.tau(), nothing.v_d(), nothing.hm()), (None, None, None));
        assert_eq!(nothing.speedup(0.0, 0, 0.0), None);
    }

    #[test]
    fn nothing_accepted_has_a_harmonic_mean_of_0() {
        let rejected = RoundRecord { accepted: 0, committed: 1, ..CHAIN };
        assert_eq!(pooled(&[rejected]).hm(), Some(0.0));
    }

    #[test]
    fn sums_counted_elsewhere_are_taken_over() {
        let counted = pooled(&[CHAIN, TREE]);
        let taken = Statistics::from_sums(counted.rounds(), *counted.sums(), counted.accepted_by_depth().to_vec());
        assert_eq!(taken, counted);
    }

    #[test]
    fn merging_is_adding_all_rounds() {
        let mut merged = pooled(&[CHAIN]);
        merged.merge(&pooled(&[TREE, CHAIN]));
        assert_eq!(merged, pooled(&[CHAIN, TREE, CHAIN]));
    }
}
