//! `pct`: prune the candidate tree by what a node is likely to save (the PCT paper).
//!
//! Drafting below a node costs `s_d` and spares a verification of cost `s_t` with the node's
//! `path_prob`: it pays while `s_d - path_prob * s_t <= 0`.

use super::param::Param;
use super::registry::{Kind, WIDTH_MAX, max_depth, max_nodes};
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

    fn keep(&self, draft: &Draft) -> Vec<usize> {
        let likely = |&id: &usize| draft.path_prob(id) >= self.leaf_threshold;
        draft.kept().filter(likely).collect()
    }
}
