//! `vanilla-tree`: the full tree of a fixed width and depth.

use super::Policy;
use super::param::Param;
use super::registry::{Kind, WIDTH_MAX, depth, general_depth, max_nodes};
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

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        if draft.levels() < self.depth { draft.expandable().collect() } else { Vec::new() }
    }
}
