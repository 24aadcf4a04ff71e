//! All that was drafted in a round, for whoever asks to see it.

use std::time::Duration;

use espalier_speculation::{MAX_TREE_NODES, Token, Tree, TreeBounds};

use crate::common::{check_length, wire_count, wire_micros};
use crate::error::WireError;
use crate::pb;

/// All that was drafted in a round, and what became of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DraftedTree {
    /// The nodes: at most [`MAX_TREE_NODES`], those that were sent before all others.
    pub nodes: Tree,
    /// Numbers of those that were sent, rising.
    pub sent: Vec<usize>,
    /// Numbers of those that were accepted, from the root down.
    pub accepted: Vec<usize>,
    /// What running each level of the draft took.
    pub levels: Vec<Duration>,
}

impl DraftedTree {
    /// Nothing reads a tree of a model that it does not know: any token may be in it.
    const BOUNDS: TreeBounds =
        TreeBounds { vocab: Token::MAX as usize, max_nodes: MAX_TREE_NODES, max_depth: MAX_TREE_NODES };

    /// Keeps the first `count` accepted nodes only.
    pub(crate) fn cut(&mut self, count: usize) {
        self.accepted.truncate(count);
    }

    pub(crate) fn write(self) -> pb::DraftedTree {
        let nodes = self.nodes.nodes();
        let numbers = |all: &[usize]| all.iter().copied().map(wire_count).collect();
        pb::DraftedTree {
            tokens: nodes.iter().map(|node| node.token).collect(),
            parents: nodes.iter().map(|node| wire_count(node.parent)).collect(),
            probs: nodes.iter().map(|node| node.prob).collect(),
            sent: numbers(&self.sent),
            accepted: numbers(&self.accepted),
            levels_us: self.levels.iter().copied().map(wire_micros).collect(),
        }
    }

    pub(crate) fn read(wire: pb::DraftedTree) -> Result<Self, WireError> {
        let nodes = Tree::parse(&Self::BOUNDS, &wire.tokens, &wire.parents, &wire.probs)?;
        check_length("tree.levels_us", wire.levels_us.len(), MAX_TREE_NODES)?;
        Ok(Self {
            sent: read_numbers("tree.sent", wire.sent, nodes.len())?,
            accepted: read_numbers("tree.accepted", wire.accepted, nodes.len())?,
            levels: wire.levels_us.into_iter().map(Duration::from_micros).collect(),
            nodes,
        })
    }
}

/// Numbers of nodes, each once, rising: a parent comes before its children.
fn read_numbers(field: &'static str, wire: Vec<u32>, nodes: usize) -> Result<Vec<usize>, WireError> {
    let mut least = 1;
    for &number in &wire {
        let number = u64::from(number);
        if number < least {
            return Err(WireError::TooSmall { field, value: number, min: least });
        }
        check_length(field, number as usize, nodes)?;
        least = number + 1;
    }
    Ok(wire.into_iter().map(|number| number as usize).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn tree() -> DraftedTree {
        let mut nodes = Tree::new();
        let first = nodes.push(0, 7, 0.5).unwrap();
        nodes.push(0, 8, 0.25).unwrap();
        nodes.push(first, 9, 0.75).unwrap();
        let levels = vec![Duration::from_micros(30), Duration::from_micros(20)];
        DraftedTree { nodes, sent: vec![1, 3], accepted: vec![1], levels }
    }

    #[test]
    fn it_survives_the_wire() {
        assert_eq!(DraftedTree::read(tree().write()), Ok(tree()));
        assert_eq!(DraftedTree::read(DraftedTree::default().write()), Ok(DraftedTree::default()));
    }

    #[test]
    fn nodes_that_are_not_there_or_come_twice_are_refused() {
        let refusal = |tree: DraftedTree| DraftedTree::read(tree.write()).unwrap_err().to_string();
        assert_eq!(refusal(DraftedTree { sent: vec![1, 4], ..tree() }), "tree.sent is 4, beyond the limit of 3");
        assert_eq!(refusal(DraftedTree { sent: vec![2, 2], ..tree() }), "tree.sent is 2, below the minimum of 3");
        assert_eq!(refusal(DraftedTree { accepted: vec![0], ..tree() }), "tree.accepted is 0, below the minimum of 1");
    }
}
