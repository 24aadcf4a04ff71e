//! A tree that was drawn: every node that has children knows the distribution they were drawn from.

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
    /// `q` has one entry for each node, the root's first; those of nodes without children are not used.
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
        Ok(Self { tree, q })
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What the children of `node` were drawn from; 0 is the root.
    pub fn q(&self, node: usize) -> Option<&Distribution> {
        self.q.get(node)?.as_ref()
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
        assert!(DrawnTree::new(Tree::new(), vec![None]).is_ok());
    }
}
