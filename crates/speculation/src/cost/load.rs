//! What other sequences have to do with the time of a round.

use super::robust::FADE;

/// With whom a round shared the target's forward pass. All 0 where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassLoad {
    /// Rows of the pass, those of other sequences included.
    pub rows: usize,
    /// Trees that it verified.
    pub trees: usize,
    /// Sequences that were open.
    pub open: usize,
}

impl PassLoad {
    /// The same, or a pass for so many rows of one sequence where nothing is known.
    pub(super) fn or_alone(self, rows: usize) -> Self {
        if self.trees == 0 { Self { rows, trees: 1, open: 1 } } else { self }
    }
}

/// The load of a target lately.
///
/// A sequence that drafts one node more makes the passes of all others longer too, and each of them reckons alike. So what
/// a tree of `n` nodes costs is what it costs if all in the pass send `n` nodes: otherwise everyone would draft because
/// everyone else does, and all would be slower than by plain decoding.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecentLoad {
    trees: f64,
    open: f64,
    /// Time that trees wait for their pass, as a share of the pass's own.
    waits: f64,
}

impl Default for RecentLoad {
    fn default() -> Self {
        Self { trees: 1.0, open: 1.0, waits: 0.0 }
    }
}

impl RecentLoad {
    /// A pass with a tree of the sequence's was shared like this, and waited for this long, as a share of its time.
    pub(super) fn add(&mut self, pass: PassLoad, waited: f64) {
        self.waits += FADE * (waited - self.waits);
        self.trees += FADE * (pass.trees as f64 - self.trees);
        self.open += FADE * (pass.open.max(pass.trees).max(1) as f64 - self.open);
    }

    /// Nodes beside one root that a pass has if all in it send trees of `nodes`.
    pub(super) fn nodes(&self, nodes: usize) -> usize {
        beside_root(self.trees * (nodes as f64 + 1.0))
    }

    /// How many such passes a tree takes, the wait for its own included: all together no more than hold all that are open.
    pub(super) fn passes(&self) -> f64 {
        (1.0 + self.waits).min((self.open / self.trees).max(1.0))
    }
}

fn beside_root(rows: f64) -> usize {
    (rows.round() as usize).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_counts_own_rows_only() {
        let mut load = RecentLoad::default();
        (0..100).for_each(|_| load.add(PassLoad::default().or_alone(6), 0.0));
        assert_eq!([0, 1, 7].map(|nodes| load.nodes(nodes)), [0, 1, 7]);
        assert_eq!(load.passes(), 1.0);
    }

    #[test]
    fn in_a_shared_pass_every_node_counts_for_each_of_its_trees() {
        let mut load = RecentLoad::default();
        (0..200).for_each(|_| load.add(PassLoad { rows: 40, trees: 8, open: 16 }, 0.5));
        assert_eq!([0, 1, 4].map(|nodes| load.nodes(nodes)), [7, 15, 39]);
        assert!((load.passes() - 1.5).abs() < 1e-3);
    }

    #[test]
    fn once_all_are_in_one_pass_nobody_waits() {
        let mut load = RecentLoad::default();
        (0..200).for_each(|_| load.add(PassLoad { rows: 40, trees: 8, open: 16 }, 0.9));
        (0..200).for_each(|_| load.add(PassLoad { rows: 16, trees: 16, open: 16 }, 0.9));
        assert_eq!(([0, 1, 3].map(|nodes| load.nodes(nodes)), load.passes().round()), ([15, 31, 63], 1.0));
    }
}
