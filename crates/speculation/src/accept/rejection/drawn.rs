//! A tree that was drawn: every node that has children knows the distribution they were drawn from.

use crate::tree::Node;
use crate::{Distribution, Token, Tree};

/// Why a tree cannot have been drawn from the distributions it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DrawnTreeError {
    /// There must be one entry for each node and one for the root.
    #[error("a tree of {nodes} nodes came with {found} draft distributions, not {}", nodes + 1)]
    Distributions {
        /// Nodes in the tree.
        nodes: usize,
        /// Distributions given.
        found: usize,
    },
    /// A node has children, but no draft distribution.
    #[error("node {node} has children, but no draft distribution")]
    Missing {
        /// The node; 0 is the root.
        node: usize,
    },
    /// A node's token cannot be drawn.
    #[error("node {node} carries token {token}, to which its parent's draft distribution gives probability 0")]
    Impossible {
        /// The node.
        node: usize,
        /// Its token.
        token: Token,
    },
}

/// A tree with the draft distribution `q` of every node that has children; valid by construction.
///
/// The children of a node, in order of their numbers, were drawn from its `q` without replacement, and none was dropped
/// or moved for its own probability: the distribution of what is accepted rests on it, and no check can see it.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnTree {
    tree: Tree,
    q: Vec<Option<Distribution>>,
}

impl DrawnTree {
    /// `q` has one entry for each node, the root's first; those of nodes without children are dropped.
    ///
    /// # Errors
    /// Another number of distributions; a parent without one; a child whose token has probability 0 in its parent's.
    pub fn new(tree: Tree, q: Vec<Option<Distribution>>) -> Result<Self, DrawnTreeError> {
        if q.len() != tree.len() + 1 {
            return Err(DrawnTreeError::Distributions { nodes: tree.len(), found: q.len() });
        }
        for (id, node) in (1..).zip(tree.nodes()) {
            let q = q[node.parent].as_ref().ok_or(DrawnTreeError::Missing { node: node.parent })?;
            if q.prob(node.token) == 0.0 {
                return Err(DrawnTreeError::Impossible { node: id, token: node.token });
            }
        }
        let mut drawn = Self { tree, q };
        drawn.forget_unused();
        Ok(drawn)
    }

    /// The chain of a tree of guesses that follows the most probable child of each node (ties: the first), each taken as
    /// drawn from a distribution that has nothing else: what a drafter without a distribution proposes.
    pub fn trunk(guesses: &Tree) -> Self {
        let (mut trunk, mut above) = (Vec::new(), 0);
        while let Some(child) = guesses.best_child(above) {
            trunk.extend(guesses.node(child).map(|&node| (child, Node { prob: 1.0, path_prob: 1.0, ..node })));
            above = child;
        }
        let certain = trunk.iter().map(|(_, node)| Some(Distribution::certain(node.token)));
        let q = certain.chain([None]).collect();
        Self { tree: Tree::of_connected(trunk).0, q }
    }

    /// Keeps the first `nodes` nodes only: what they were drawn from does not change.
    pub fn truncate(&mut self, nodes: usize) {
        self.tree.truncate(nodes);
        self.q.truncate(self.tree.len() + 1);
        self.forget_unused();
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What the children of `node` were drawn from, if it has any; 0 is the root.
    pub fn q(&self, node: usize) -> Option<&Distribution> {
        self.q.get(node)?.as_ref()
    }

    /// Every node that has children, with what they were drawn from, by rising number; 0 is the root.
    pub fn distributions(&self) -> impl Iterator<Item = (usize, &Distribution)> {
        (0..).zip(&self.q).filter_map(|(node, q)| Some((node, q.as_ref()?)))
    }

    /// Drops the distributions of nodes without children.
    fn forget_unused(&mut self) {
        let mut used = vec![false; self.q.len()];
        self.tree.nodes().iter().for_each(|node| used[node.parent] = true);
        for (q, _) in self.q.iter_mut().zip(used).filter(|(_, used)| !used) {
            *q = None;
        }
    }

    /// The children of `node` with their tokens, in the order they were drawn.
    pub(super) fn children(&self, node: usize) -> impl Iterator<Item = (usize, Token)> {
        let later = (1..).zip(self.tree.nodes()).skip(node);
        later.filter(move |(_, child)| child.parent == node).map(|(id, child)| (id, child.token))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn each_fault_is_named_with_its_node() {
        let fault = |token, q: &[Option<&[f64]>]| {
            let mut tree = Tree::new();
            tree.push(0, token, 0.5).unwrap();
            let q = q.iter().map(|q| q.map(|q| Distribution::from_probs(q).unwrap()));
            DrawnTree::new(tree, q.collect()).unwrap_err().to_string()
        };
        assert_eq!(fault(0, &[]), "a tree of 1 nodes came with 0 draft distributions, not 2");
        assert_eq!(fault(0, &[None, Some(&[1.0])]), "node 0 has children, but no draft distribution");
        let impossible = "node 1 carries token 1, to which its parent's draft distribution gives probability 0";
        assert_eq!(fault(1, &[Some(&[1.0, 0.0]), None]), impossible);
    }

    #[test]
    fn plain_decoding_is_a_drawn_tree() {
        assert_eq!(DrawnTree::new(Tree::new(), vec![None]), Ok(DrawnTree::trunk(&Tree::new())));
    }

    /// The tree `1 (2 3) 4 (5)` below the root, the last of each pair of siblings the more probable one.
    fn guesses() -> Tree {
        let mut tree = Tree::new();
        for (parent, token, prob) in [(0, 1, 0.25), (0, 4, 0.75), (1, 2, 0.25), (1, 3, 0.5), (2, 5, 0.5)] {
            tree.push(parent, token, prob).unwrap();
        }
        tree
    }

    #[test]
    fn only_what_children_were_drawn_from_is_kept() {
        let q = Distribution::from_probs(&[0.0, 0.2, 0.2, 0.2, 0.2, 0.2]).unwrap();
        let mut drawn = DrawnTree::new(guesses(), vec![Some(q.clone()); 6]).unwrap();
        let nodes = |drawn: &DrawnTree| drawn.distributions().map(|(node, _)| node).collect::<Vec<_>>();
        assert_eq!((nodes(&drawn), drawn.q(0), drawn.q(3)), (vec![0, 1, 2], Some(&q), None));
        drawn.truncate(2);
        assert_eq!((drawn.tree().len(), nodes(&drawn), drawn.q(1)), (2, vec![0], None));
    }

    #[test]
    fn the_trunk_of_guesses_is_one_chain_of_certain_tokens() {
        let trunk = DrawnTree::trunk(&guesses());
        let nodes = trunk.tree().nodes().iter().map(|node| (node.parent, node.token, node.path_prob));
        assert_eq!(nodes.collect::<Vec<_>>(), [(0, 4, 1.0), (1, 5, 1.0)]);
        let certain = |token| Distribution::certain(token);
        assert_eq!(trunk.distributions().collect::<Vec<_>>(), [(0, &certain(4)), (1, &certain(5))]);
        let q = vec![Some(certain(4)), Some(certain(5)), None];
        assert_eq!(DrawnTree::new(trunk.tree().clone(), q), Ok(trunk));
    }
}
