//! `heuristic`: a chain that grows while all of it is accepted (Hugging Face's schedule).

use super::chain::StopTest;
use super::kind::{ChainKind, LENGTH_MAX, chain_depth, max_nodes};
use super::param::Param;
use crate::RoundRecord;
use crate::draft::Draft;

const START: Param = Param::count("start", 5, (1, LENGTH_MAX), "tokens in the first chain");

/// Tokens more after a round that was accepted as a whole, and fewer after another.
const GROWTH: usize = 2;
const SHRINKAGE: usize = 1;

pub(super) const KIND: ChainKind = ChainKind {
    name: "heuristic",
    about: "a chain that gets 2 tokens longer when all of it was accepted, else 1 shorter",
    params: &[START, max_nodes(64), chain_depth()],
    build: |values| {
        let longest = values.count(&chain_depth());
        Box::new(Heuristic { length: values.count(&START).min(longest), longest })
    },
};

struct Heuristic {
    /// Tokens planned for the next round, within 1 and `longest`.
    length: usize,
    longest: usize,
}

impl StopTest for Heuristic {
    fn stops(&mut self, draft: &Draft) -> bool {
        draft.levels() >= self.length
    }

    fn observe(&mut self, round: &RoundRecord) {
        if round.drafted == 0 {
            return;
        }
        self.length = if round.accepted == round.drafted {
            (self.length + GROWTH).min(self.longest)
        } else {
            (self.length - SHRINKAGE).max(1)
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{LIMITS, draft, grower, start};

    #[test]
    fn the_chain_follows_its_acceptance_within_its_bounds() {
        let mut grower = grower("heuristic,start=2,max_depth=5", &[]);
        // Accepted of each round: all, all, all, then ever less than all.
        let mut lengths = Vec::new();
        for accepted in [2, 4, 5, 3, 0, 0, 0, 0, 0] {
            lengths.push(draft(&mut grower, &start(LIMITS), |_| vec![1.0]).tree.len());
            let path: Vec<usize> = (1..=accepted).collect();
            grower.observe(&path, accepted + 1);
        }
        assert_eq!(lengths, [2, 4, 5, 5, 4, 3, 2, 1, 1]);
    }

    #[test]
    fn a_round_without_a_draft_changes_nothing() {
        let mut grower = grower("heuristic,start=3", &[]);
        grower.observe(&[], 1);
        assert_eq!(draft(&mut grower, &start(LIMITS), |_| vec![1.0]).tree.len(), 3);
    }
}
