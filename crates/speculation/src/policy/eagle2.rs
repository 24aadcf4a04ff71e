//! `eagle2`: expand a level's best nodes, send the best of all (EAGLE-2's dynamic tree).

use super::Policy;
use super::param::Param;
use super::registry::{Kind, TOTAL_MAX, WIDTH_MAX, depth, general_depth, max_nodes};
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

    fn keep(&self, draft: &Draft) -> Vec<usize> {
        draft.best(draft.kept(), self.total)
    }
}
