//! How a tree was grown, for whoever asks to see it.

use std::time::Duration;

use espalier_proto::{DraftedTree, Outcome};
use espalier_speculation::{MAX_TREE_NODES, Tree};

/// All that was drafted for a tree, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// All nodes that were drafted.
    pub drafted: Tree,
    /// Their numbers of the tree's nodes, in the tree's order.
    pub sent: Vec<usize>,
    /// What running each level took.
    pub levels: Vec<Duration>,
}

impl Growth {
    /// That of a tree that is all that was drafted.
    pub(crate) fn whole(tree: &Tree) -> Self {
        Self { drafted: tree.clone(), sent: (1..=tree.len()).collect(), levels: Vec::new() }
    }

    /// What became of it.
    pub(crate) fn told(&self, outcome: &Outcome) -> DraftedTree {
        let number = |node: &usize| self.sent.get(node.checked_sub(1)?).copied();
        let accepted: Vec<usize> = outcome.path.iter().filter_map(number).collect();
        let levels = self.levels.clone();
        if self.drafted.len() <= MAX_TREE_NODES {
            return DraftedTree { nodes: self.drafted.clone(), sent: self.sent.clone(), accepted, levels };
        }
        // Of a larger one only what was sent.
        let (nodes, numbers) = self.drafted.part(&self.sent);
        let renumbered = |all: &[usize]| {
            let new = |old: &usize| numbers.binary_search(old).ok().map(|index| index + 1);
            all.iter().filter_map(new).collect::<Vec<_>>()
        };
        DraftedTree { sent: renumbered(&self.sent), accepted: renumbered(&accepted), nodes, levels }
    }
}
