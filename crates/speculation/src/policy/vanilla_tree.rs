//! `vanilla-tree`: the full tree of a fixed width and depth.

use super::Policy;
use super::kind::{Kind, WIDTH_MAX, depth, general_depth, max_nodes};
use super::param::Param;
use crate::draft::Draft;

const WIDTH: Param = Param::count("width", 3, (1, WIDTH_MAX), "children of every node");
const DEPTH: Param = depth(5);

/// Nodes of the full tree with the default width and depth.
const FULL: u32 = 363;

pub(super) const KIND: Kind = Kind {
    name: "vanilla-tree",
    about: "the full tree of a width and depth",
    params: &[WIDTH, DEPTH, max_nodes(FULL), general_depth()],
    build: |values| Box::new(VanillaTree { width: values.count(&WIDTH), depth: values.count(&DEPTH) }),
};

struct VanillaTree {
    width: usize,
    depth: usize,
}

impl Policy for VanillaTree {
    fn width(&self) -> usize {
        self.width
    }

    fn suits_drawn(&self) -> bool {
        true
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        if draft.levels() < self.depth { draft.expandable().collect() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::draft_once;

    #[test]
    fn every_node_has_the_same_number_of_children() {
        let proposal = draft_once("vanilla-tree,width=2,depth=3", |_| vec![0.5, 0.3, 0.2]);
        assert_eq!((proposal.widths, proposal.tree.len()), (vec![1, 2, 4], 2 + 4 + 8));
    }

    #[test]
    fn by_default_the_full_tree_fits() {
        let limits = KIND.params.iter().find(|param| param.key == "max_nodes");
        assert_eq!(limits.and_then(|param| param.default), Some(f64::from(3 + 9 + 27 + 81 + 243_u16)));
    }

    #[test]
    fn beyond_max_nodes_the_best_stay_and_the_rest_is_not_expanded() {
        let proposal = draft_once("vanilla-tree,width=2,depth=2,max_nodes=3", |_| vec![0.75, 0.25]);
        let path_probs: Vec<f64> = proposal.tree.nodes().iter().map(|node| node.path_prob).collect();
        assert_eq!(path_probs, [0.75, 0.25, 0.5625]);
        assert_eq!(proposal.drafted, 6);
    }
}
