//! `heuristic`: a chain that grows while all of it is accepted (Hugging Face's schedule).

use super::chain::{Chain, StopTest};
use super::param::Param;
use super::registry::{Kind, LENGTH_MAX, chain_depth, max_nodes};
use crate::RoundRecord;
use crate::draft::Draft;

const START: Param = Param::count("start", 5, (1, LENGTH_MAX), "tokens in the first chain");

/// Tokens more after a round that was accepted as a whole, and fewer after another.
const GROWTH: usize = 2;
const SHRINKAGE: usize = 1;

pub(super) const KIND: Kind = Kind {
    name: "heuristic",
    about: "a chain that gets 2 tokens longer when all of it was accepted, else 1 shorter",
    params: &[START, max_nodes(64), chain_depth()],
    build: |values| {
        let longest = values.count(&chain_depth());
        Box::new(Chain(Heuristic { length: values.count(&START).min(longest), longest }))
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
