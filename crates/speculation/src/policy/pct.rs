//! `pct`: prune the candidate tree by what a node is likely to save (the PCT paper).
//!
//! Drafting below a node costs `s_d` and spares a verification of cost `s_t` with the node's
//! `path_prob`: it pays while `s_d - path_prob * s_t <= 0`.

use super::kind::{Kind, WIDTH_MAX, max_depth, max_nodes};
use super::param::Param;
use super::{Policy, RoundStart};
use crate::draft::Draft;

const WIDTH: Param = Param::count("width", 5, (1, WIDTH_MAX), "children of a node");
const LEAF_THRESHOLD: Param = Param::real("leaf_threshold", 0.01, (0.0, 1.0), "least path_prob of a node sent");
const RATIO: Param =
    Param::real("ratio", 0.1, (0.0, 1e6), "least path_prob of a node expanded; auto is s_d / s_t").auto();

pub(super) const KIND: Kind = Kind {
    name: "pct",
    about: "a tree whose nodes are expanded while that saves more time than it costs",
    params: &[WIDTH, LEAF_THRESHOLD, RATIO, max_nodes(64), max_depth(10)],
    build: |values| {
        Box::new(Pct {
            width: values.count(&WIDTH),
            leaf_threshold: values.real(&LEAF_THRESHOLD),
            fixed_ratio: values.measurable(&RATIO),
            ratio: f64::INFINITY,
        })
    },
};

struct Pct {
    width: usize,
    leaf_threshold: f64,
    fixed_ratio: Option<f64>,
    /// `s_d / s_t` of this round.
    ratio: f64,
}

impl Policy for Pct {
    fn begin(&mut self, start: &RoundStart) {
        self.ratio = self.fixed_ratio.unwrap_or_else(|| start.costs.ratio());
    }

    fn width(&self) -> usize {
        self.width
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        let pays = |&id: &usize| draft.path_prob(id) >= self.ratio;
        draft.expandable().filter(pays).collect()
    }

    fn keep(&mut self, draft: &Draft) -> Vec<usize> {
        let likely = |&id: &usize| draft.path_prob(id) >= self.leaf_threshold;
        draft.kept().filter(likely).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{LIMITS, draft, draft_once, grower, start};
    use crate::{Costs, Limits, RoundStart};

    #[test]
    fn a_node_is_expanded_while_it_saves_more_than_it_costs() {
        // Path probabilities 1, 1/2, 1/4, 1/8: the last is below the measured ratio of 0.2.
        let costs = Costs { level_ms: 2.0, verification_ms: 10.0, ..Costs::default() };
        let proposal = draft(&mut grower("pct", &[]), &RoundStart { costs, ..start(LIMITS) }, |_| vec![0.5]);
        assert_eq!((proposal.widths.len(), proposal.tree.len()), (3, 3));
    }

    #[test]
    fn where_drafting_costs_more_than_verifying_nothing_is_drafted() {
        let costs = Costs { level_ms: 11.0, verification_ms: 10.0, ..Costs::default() };
        let proposal = draft(&mut grower("pct", &[]), &RoundStart { costs, ..start(LIMITS) }, |_| vec![1.0]);
        assert!(proposal.tree.is_empty() && proposal.widths.is_empty());
    }

    #[test]
    fn a_ratio_may_be_given() {
        assert_eq!(draft_once("pct,ratio=0.25", |_| vec![0.5]).tree.len(), 3);
    }

    #[test]
    fn unlikely_leaves_are_not_sent() {
        let proposal = draft_once("pct,leaf_threshold=0.3,ratio=0.7", |_| vec![0.75, 0.25]);
        assert_eq!((proposal.drafted, proposal.tree.len()), (4, 2));
    }

    #[test]
    fn what_max_nodes_drops_is_never_expanded() {
        let tight = start(Limits { max_nodes: 2, ..LIMITS });
        let proposal = draft(&mut grower("pct,ratio=0.1", &[]), &tight, |_| vec![0.6, 0.4]);
        // The root's children fill the tree; a grandchild has at most 0.36.
        assert_eq!((proposal.widths, proposal.tree.len()), (vec![1, 2], 2));
    }
}
