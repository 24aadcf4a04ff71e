//! `cape`: a chain with alternatives beside it, the more the less sure the drafter is.

use super::Policy;
use super::kind::{Kind, depth, general_depth, max_nodes};
use super::param::Param;
use crate::Candidates;
use crate::draft::Draft;

const DEPTH: Param = depth(5);

/// Children of a node whose confidence is at most the bound; the last bound is never passed.
const FAN_OUTS: [(f64, usize); 4] = [(0.3, 7), (0.6, 5), (0.8, 3), (1.0, 1)];

pub(super) const KIND: Kind = Kind {
    name: "cape",
    about: "a chain of best tokens with 1 to 7 alternatives each, by confidence",
    params: &[DEPTH, max_nodes(64), general_depth()],
    build: |values| {
        let depth = values.count(&DEPTH);
        Box::new(Cape { depth })
    },
};

struct Cape {
    depth: usize,
}

impl Policy for Cape {
    fn width(&self) -> usize {
        FAN_OUTS[0].1
    }

    fn fan_out(&self, candidates: &Candidates) -> usize {
        let within = |&&(bound, _): &&(f64, usize)| candidates.confidence() <= bound;
        FAN_OUTS.iter().find(within).map_or(1, |&(_, children)| children)
    }

    fn suits_drawn(&self) -> bool {
        true
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        if draft.levels() < self.depth { draft.newest().take(1).collect() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::draft_once;

    #[test]
    fn the_less_sure_the_more_children() {
        for (confidence, children) in [(0.2, 7), (0.3, 7), (0.31, 5), (0.6, 5), (0.8, 3), (0.81, 1), (1.0, 1)] {
            let rest = (1.0 - confidence) / 8.0;
            let proposal = draft_once("cape,depth=1", |_| [vec![confidence], vec![rest; 8]].concat());
            assert_eq!(proposal.tree.len(), children, "confidence {confidence}");
        }
    }

    #[test]
    fn only_the_first_child_of_a_level_is_expanded() {
        let proposal = draft_once("cape,depth=3", |_| vec![0.7, 0.2, 0.1]);
        assert_eq!(proposal.widths, [1, 1, 1]);
        let parents: Vec<usize> = proposal.tree.nodes().iter().map(|node| node.parent).collect();
        assert_eq!(parents, [0, 0, 0, 1, 1, 1, 4, 4, 4]);
    }
}
