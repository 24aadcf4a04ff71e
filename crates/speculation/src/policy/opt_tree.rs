//! `opt-tree`: the n nodes with the greatest expected accepted length (the OPT-Tree paper).
//!
//! The expected accepted length `E` of a tree is the sum of its nodes' `path_prob`, so the best
//! tree of n nodes is the n most probable ones. Drafting ends when a level adds too little to `E`.

use super::param::Param;
use super::registry::{Kind, TOTAL_MAX, max_depth, max_nodes};
use super::{Policy, RoundStart};
use crate::draft::Draft;

const N: Param = Param::count("n", 50, (1, TOTAL_MAX), "nodes sent, and nodes of a level");
const DELTA: Param =
    Param::real("delta", 0.5, (0.0, 1e6), "what a level must add to the expected length; auto is s_d / s_t").or_auto();

pub(super) const KIND: Kind = Kind {
    name: "opt-tree",
    about: "the n nodes of greatest expected accepted length",
    params: &[N, DELTA, max_nodes(64), max_depth(10)],
    build: |values| {
        Box::new(OptTree {
            n: values.count(&N),
            delta: values.measurable(&DELTA),
            budget: 0,
            least_growth: 0.0,
            expected: 0.0,
        })
    },
};

struct OptTree {
    n: usize,
    delta: Option<f64>,
    /// `n` and `delta` of this round.
    budget: usize,
    least_growth: f64,
    /// `E` after the newest level.
    expected: f64,
}

impl OptTree {
    /// Whether the newest level added enough to `E`, which is brought up to date.
    fn has_grown(&mut self, draft: &Draft) -> bool {
        let best = draft.best(draft.kept(), self.budget);
        let expected = best.into_iter().map(|id| draft.path_prob(id)).sum();
        let before = std::mem::replace(&mut self.expected, expected);
        expected - before > self.least_growth
    }
}

impl Policy for OptTree {
    fn begin(&mut self, start: &RoundStart) {
        self.budget = self.n.min(start.limits.max_nodes);
        self.least_growth = self.delta.unwrap_or_else(|| start.costs.ratio());
        self.expected = 0.0;
    }

    fn width(&self) -> usize {
        self.budget
    }

    fn level_max(&self) -> usize {
        self.budget
    }

    fn trims(&self) -> bool {
        false
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        if draft.levels() > 0 && !self.has_grown(draft) {
            return Vec::new();
        }
        draft.expandable().collect()
    }

    fn keep(&self, draft: &Draft) -> Vec<usize> {
        draft.best(draft.kept(), self.budget)
    }
}
