//! `opt-tree`: the n nodes with the greatest expected accepted length (the OPT-Tree paper).
//!
//! The expected accepted length `E` of a tree is the sum of its nodes' `path_prob`, so the best
//! tree of n nodes is the n most probable ones. Drafting ends when a level adds too little to `E`.

use super::kind::{Kind, TOTAL_MAX, max_depth, max_nodes};
use super::param::Param;
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
            best: Vec::new(),
            levels: 0,
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
    /// The best `n` nodes of so many levels, and their `E`.
    best: Vec<usize>,
    levels: usize,
    expected: f64,
}

impl OptTree {
    /// Takes a newest level into account: who was not among the best is not when there are more.
    fn read_level(&mut self, draft: &Draft) {
        if std::mem::replace(&mut self.levels, draft.levels()) < draft.levels() {
            self.best = draft.best(self.best.iter().copied().chain(draft.newest()), self.budget);
        }
    }

    /// Whether the newest level added enough to `E`.
    fn has_grown(&mut self, draft: &Draft) -> bool {
        self.read_level(draft);
        let expected = self.best.iter().map(|&id| draft.path_prob(id)).sum();
        let before = std::mem::replace(&mut self.expected, expected);
        expected - before > self.least_growth
    }
}

impl Policy for OptTree {
    fn begin(&mut self, start: &RoundStart) {
        self.budget = self.n.min(start.limits.max_nodes);
        self.least_growth = self.delta.unwrap_or_else(|| start.costs.ratio());
        self.best.clear();
        self.levels = 0;
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

    fn keep(&mut self, draft: &Draft) -> Vec<usize> {
        self.read_level(draft);
        self.best.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::draft_once;

    /// Levels drafted where every node is followed by a certain token and `delta` is given.
    fn levels(policy: &str) -> usize {
        draft_once(policy, |_| vec![1.0]).widths.len()
    }

    #[test]
    fn drafting_ends_with_the_level_that_adds_too_little() {
        // Each level adds its one node of path_prob 1 until n are there; then nothing.
        assert_eq!(levels("opt-tree,n=4,delta=0.9"), 5);
        assert_eq!(levels("opt-tree,n=4,delta=1"), 1);
    }

    #[test]
    fn the_level_that_ends_it_is_kept() {
        // E grows by 1, then by 0.5 + 0 (the other half has no room): by no more than delta.
        let proposal = draft_once("opt-tree,n=2,delta=0.5", |node| if node == 0 { vec![1.0] } else { vec![0.5, 0.5] });
        assert_eq!((proposal.widths.len(), proposal.tree.len()), (2, 2));
    }

    #[test]
    fn delta_may_be_the_measured_ratio() {
        // 0.1 at the default costs; halves add 0.5, 0.25, 0.125 and 0.0625.
        let proposal = draft_once("opt-tree,n=20,delta=auto", |_| vec![0.5]);
        assert_eq!(proposal.widths.len(), 4);
    }

    #[test]
    fn a_level_has_at_most_n_nodes() {
        let proposal = draft_once("opt-tree,n=3,delta=0,max_depth=3", |_| vec![0.25; 4]);
        assert_eq!((proposal.widths, proposal.drafted), (vec![1, 3], 6));
    }
}
