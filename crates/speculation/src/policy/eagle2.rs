//! `eagle2`: expand a level's best nodes, send the best of all (EAGLE-2's dynamic tree).

use super::Policy;
use super::kind::{Kind, TOTAL_MAX, WIDTH_MAX, depth, general_depth, max_nodes};
use super::param::Param;
use crate::draft::Draft;

const TOTAL: Param = Param::count("total", 50, (1, TOTAL_MAX), "nodes sent");
const DEPTH: Param = depth(6);
const K: Param = Param::count("k", 10, (1, WIDTH_MAX), "nodes expanded a level, and children of each");

pub(super) const KIND: Kind = Kind {
    name: "eagle2",
    about: "expands the k best nodes of each level, sends the total best of all",
    params: &[TOTAL, DEPTH, K, max_nodes(64), general_depth()],
    build: |values| Box::new(Eagle2 { total: values.count(&TOTAL), depth: values.count(&DEPTH), k: values.count(&K) }),
};

struct Eagle2 {
    total: usize,
    depth: usize,
    k: usize,
}

impl Policy for Eagle2 {
    fn width(&self) -> usize {
        self.k
    }

    fn trims(&self) -> bool {
        false
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        if draft.levels() < self.depth { draft.best(draft.expandable(), self.k) } else { Vec::new() }
    }

    fn keep(&mut self, draft: &Draft) -> Vec<usize> {
        draft.best(draft.kept(), self.total)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::draft_once;

    #[test]
    fn the_k_best_of_a_level_are_expanded() {
        let proposal = draft_once("eagle2,k=2,depth=3,total=50", |_| vec![0.5, 0.3, 0.2]);
        assert_eq!((proposal.widths, proposal.tree.len()), (vec![1, 2, 2], 2 + 4 + 4));
    }

    #[test]
    fn the_total_best_of_all_levels_are_sent() {
        let proposal = draft_once("eagle2,k=2,depth=2,total=3", |_| vec![0.75, 0.25]);
        let path_probs: Vec<f64> = proposal.tree.nodes().iter().map(|node| node.path_prob).collect();
        assert_eq!(path_probs, [0.75, 0.25, 0.5625]);
    }
}
