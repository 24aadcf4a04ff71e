//! The candidate tree: drafted tokens in topological order, hanging from the committed text.

use crate::Token;

/// No tree may hold more nodes than this, whatever a policy or a peer asks for.
pub const MAX_TREE_NODES: usize = 1024;

/// One drafted token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// The drafted token.
    pub token: Token,
    /// The node this one continues; 0 is the root, the last committed token.
    pub parent: usize,
    /// Tokens between the root and this node, this one included: at least 1.
    pub depth: usize,
    /// Draft probability of `token` given its path, in (0, 1].
    pub prob: f64,
    /// Product of `prob` from the root to this node, in `[0, 1]` (0 only by underflow).
    pub path_prob: f64,
}

impl Node {
    /// The node that continues `parent` (`None`: the root) with `token`.
    ///
    /// `path_prob` is the parent's times `prob`, rounded once, so equal paths tie exactly.
    pub(crate) fn child(parent: usize, above: Option<&Node>, token: Token, prob: f64) -> Self {
        let (depth, path_prob) = above.map_or((0, 1.0), |node| (node.depth, node.path_prob));
        Self { token, parent, depth: depth + 1, prob, path_prob: path_prob * prob }
    }
}

/// Why a tree was refused. `node` counts from 1, as everywhere.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum TreeFault {
    /// The three arrays of a tree off the wire differ in length.
    #[error("a tree came with {tokens} tokens, {parents} parents and {probs} probabilities")]
    Lengths {
        /// Number of tokens.
        tokens: usize,
        /// Number of parents.
        parents: usize,
        /// Number of probabilities.
        probs: usize,
    },
    /// More nodes than allowed.
    #[error("a tree of {nodes} nodes exceeds the limit of {limit}")]
    TooManyNodes {
        /// Nodes in the tree.
        nodes: usize,
        /// Nodes allowed.
        limit: usize,
    },
    /// A path is longer than allowed.
    #[error("node {node} lies at depth {depth}, beyond the limit of {limit}")]
    TooDeep {
        /// The node at fault.
        node: usize,
        /// Its depth.
        depth: usize,
        /// Depth allowed.
        limit: usize,
    },
    /// A token outside the vocabulary.
    #[error("node {node} carries token {token}, outside the vocabulary of {vocab}")]
    Token {
        /// The node at fault.
        node: usize,
        /// Its token.
        token: Token,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A parent that is neither the root nor an earlier node.
    #[error("node {node} names node {parent} as its parent, which does not precede it")]
    Parent {
        /// The node at fault.
        node: usize,
        /// The parent it names.
        parent: usize,
    },
    /// A probability that is not finite or outside [0, 1].
    #[error("node {node} has probability {prob}, which is not between 0 and 1")]
    Probability {
        /// The node at fault.
        node: usize,
        /// Its probability.
        prob: f64,
    },
    /// A node that the draft gave probability 0.
    #[error("node {node} has probability 0, so it cannot have been drafted")]
    ZeroProbability {
        /// The node at fault.
        node: usize,
    },
    /// Two children of one node carry the same token.
    #[error("node {node} repeats token {token} among the children of node {parent}")]
    DuplicateSibling {
        /// The later of the two.
        node: usize,
        /// Their parent.
        parent: usize,
        /// Their token.
        token: Token,
    },
}

/// What a tree off the wire is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeBounds {
    /// Size of the vocabulary: tokens are below it.
    pub vocab: usize,
    /// Most nodes, root excluded.
    pub max_nodes: usize,
    /// Greatest depth of a node.
    pub max_depth: usize,
}

/// A tree of candidate tokens in topological order: every parent precedes its children.
///
/// Nodes are numbered from 1; number 0 is the root, the last committed token, which is not
/// stored. No two children of one node carry the same token.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// The empty tree: plain decoding.
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Number of nodes, root excluded.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether only the root is left.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Node `id`, or `None` for the root (0) and for ids beyond the tree.
    pub fn node(&self, id: usize) -> Option<&Node> {
        self.nodes.get(id.checked_sub(1)?)
    }

    /// All nodes; node `id` is at index `id - 1`.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The child of node `id` that carries `token`.
    pub fn child_with(&self, id: usize, token: Token) -> Option<usize> {
        let later = self.nodes.get(id..)?;
        let hit = later.iter().position(|node| node.parent == id && node.token == token)?;
        Some(id + hit + 1)
    }

    /// The most probable child of node `id`, among equals the first.
    pub(crate) fn best_child(&self, id: usize) -> Option<usize> {
        let children = (1..).zip(&self.nodes).skip(id).filter(|(_, node)| node.parent == id);
        children.max_by(|a, b| a.1.prob.total_cmp(&b.1.prob).then(b.0.cmp(&a.0))).map(|(child, _)| child)
    }

    /// Keeps the first `nodes` nodes only; none of them loses its parent, which comes before it.
    pub fn truncate(&mut self, nodes: usize) {
        self.nodes.truncate(nodes);
    }

    /// The nodes from the root (excluded) down to `id`; empty for the root and beyond the tree.
    pub fn path(&self, id: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = id;
        while let Some(node) = self.node(at) {
            path.push(at);
            at = node.parent;
        }
        path.reverse();
        path
    }

    /// Depth of the deepest node; 0 for the empty tree.
    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|node| node.depth).max().unwrap_or(0)
    }

    /// Appends a child of `parent` and returns its number.
    ///
    /// # Errors
    /// A full tree, a parent that does not exist, a probability outside (0, 1], or a sibling
    /// that already carries `token`.
    pub fn push(&mut self, parent: usize, token: Token, prob: f64) -> Result<usize, TreeFault> {
        let node = self.len() + 1;
        if node > MAX_TREE_NODES {
            return Err(TreeFault::TooManyNodes { nodes: node, limit: MAX_TREE_NODES });
        }
        if parent >= node {
            return Err(TreeFault::Parent { node, parent });
        }
        check_probability(node, prob)?;
        if self.child_with(parent, token).is_some() {
            return Err(TreeFault::DuplicateSibling { node, parent, token });
        }
        let above = self.node(parent);
        self.nodes.push(Node::child(parent, above, token, prob));
        Ok(node)
    }

    /// The tree of `nodes`, given by rising number with their parents' numbers, and the number
    /// that each of its nodes had. A node whose parent is not among them is left out.
    pub(crate) fn of_connected(nodes: impl IntoIterator<Item = (usize, Node)>) -> (Self, Vec<usize>) {
        let (mut tree, mut numbers) = (Self::new(), Vec::new());
        for (number, node) in nodes {
            let parent = match node.parent {
                0 => Ok(0),
                above => numbers.binary_search(&above).map(|index| index + 1),
            };
            if let Ok(parent) = parent {
                tree.nodes.push(Node { parent, ..node });
                numbers.push(number);
            }
        }
        (tree, numbers)
    }

    /// The tree of the nodes of these numbers, which rise, and the number that each of its nodes had. A node whose parent
    /// is not among them is left out.
    pub fn part(&self, numbers: &[usize]) -> (Self, Vec<usize>) {
        Self::of_connected(numbers.iter().filter_map(|&number| Some((number, *self.node(number)?))))
    }

    /// Reads a tree off the wire: node `i + 1` has `tokens[i]`, `parents[i]` and `probs[i]`.
    ///
    /// # Errors
    /// The first fault found, in the order of the nodes.
    pub fn parse(bounds: &TreeBounds, tokens: &[Token], parents: &[u32], probs: &[f64]) -> Result<Self, TreeFault> {
        check_lengths(bounds, tokens.len(), parents.len(), probs.len())?;
        let mut tree = Self { nodes: Vec::with_capacity(tokens.len()) };
        for ((&token, &parent), &prob) in tokens.iter().zip(parents).zip(probs) {
            let node = tree.push(parent as usize, token, prob)?;
            tree.check_bounds(node, bounds)?;
        }
        Ok(tree)
    }

    /// Checks node `id` against the vocabulary and the depth.
    fn check_bounds(&self, id: usize, bounds: &TreeBounds) -> Result<(), TreeFault> {
        let Some(&Node { token, depth, .. }) = self.node(id) else {
            return Ok(());
        };
        if token as usize >= bounds.vocab {
            return Err(TreeFault::Token { node: id, token, vocab: bounds.vocab });
        }
        if depth > bounds.max_depth {
            return Err(TreeFault::TooDeep { node: id, depth, limit: bounds.max_depth });
        }
        Ok(())
    }
}

fn check_lengths(bounds: &TreeBounds, tokens: usize, parents: usize, probs: usize) -> Result<(), TreeFault> {
    if tokens != parents || tokens != probs {
        return Err(TreeFault::Lengths { tokens, parents, probs });
    }
    let limit = bounds.max_nodes.min(MAX_TREE_NODES);
    if tokens > limit {
        return Err(TreeFault::TooManyNodes { nodes: tokens, limit });
    }
    Ok(())
}

fn check_probability(node: usize, prob: f64) -> Result<(), TreeFault> {
    if prob == 0.0 {
        Err(TreeFault::ZeroProbability { node })
    } else if !(0.0..=1.0).contains(&prob) {
        Err(TreeFault::Probability { node, prob })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const BOUNDS: TreeBounds = TreeBounds { vocab: 100, max_nodes: 8, max_depth: 3 };

    /// Two chains below the root that share their first token: `5 (6 7) 8`.
    fn sample() -> Tree {
        Tree::parse(&BOUNDS, &[5, 8, 6, 7], &[0, 0, 1, 3], &[0.5, 0.25, 0.5, 1.0]).unwrap()
    }

    #[test]
    fn nodes_know_their_depth_and_path_probability() {
        let tree = sample();
        let node = Node { token: 6, parent: 1, depth: 2, prob: 0.5, path_prob: 0.25 };
        assert_eq!(tree.node(3), Some(&node));
        assert_eq!((tree.len(), tree.depth()), (4, 3));
        assert_eq!((tree.node(0), tree.node(5)), (None, None));
    }

    #[test]
    fn a_path_runs_from_the_root_side_down() {
        let tree = sample();
        assert_eq!(tree.path(4), [1, 3, 4]);
        assert_eq!((tree.path(0), tree.path(99)), (vec![], vec![]));
    }

    #[test]
    fn children_are_found_by_token() {
        let tree = sample();
        assert_eq!(tree.child_with(0, 8), Some(2));
        assert_eq!(tree.child_with(1, 6), Some(3));
        assert_eq!(tree.child_with(1, 8), None);
        assert_eq!(tree.child_with(99, 8), None);
    }

    #[test]
    fn each_fault_is_named_with_its_value_and_limit() {
        let fault = |tokens: &[Token], parents: &[u32], probs: &[f64]| {
            Tree::parse(&BOUNDS, tokens, parents, probs).unwrap_err().to_string()
        };
        assert_eq!(fault(&[1], &[], &[0.5]), "a tree came with 1 tokens, 0 parents and 1 probabilities");
        assert_eq!(fault(&[1; 9], &[0; 9], &[0.5; 9]), "a tree of 9 nodes exceeds the limit of 8");
        assert_eq!(fault(&[100], &[0], &[0.5]), "node 1 carries token 100, outside the vocabulary of 100");
        assert_eq!(fault(&[1], &[1], &[0.5]), "node 1 names node 1 as its parent, which does not precede it");
        assert_eq!(fault(&[1], &[0], &[1.5]), "node 1 has probability 1.5, which is not between 0 and 1");
        assert_eq!(fault(&[1], &[0], &[f64::NAN]), "node 1 has probability NaN, which is not between 0 and 1");
        assert_eq!(fault(&[1], &[0], &[0.0]), "node 1 has probability 0, so it cannot have been drafted");
        assert_eq!(fault(&[1, 2, 1], &[0, 1, 0], &[0.5; 3]), "node 3 repeats token 1 among the children of node 0");
        assert_eq!(fault(&[1; 4], &[0, 1, 2, 3], &[0.5; 4]), "node 4 lies at depth 4, beyond the limit of 3");
    }

    #[test]
    fn no_tree_outgrows_the_general_maximum() {
        let mut tree = Tree::new();
        for token in 0..MAX_TREE_NODES as Token {
            tree.push(0, token, 0.1).unwrap();
        }
        let fault = TreeFault::TooManyNodes { nodes: MAX_TREE_NODES + 1, limit: MAX_TREE_NODES };
        assert_eq!(tree.push(1, 1, 0.1), Err(fault));
    }

    #[test]
    fn a_part_of_a_tree_is_renumbered_and_loses_its_orphans() {
        let (tree, numbers) = sample().part(&[1, 3, 4]);
        assert_eq!(numbers, [1, 3, 4]);
        assert_eq!(tree.nodes().iter().map(|node| node.parent).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(sample().part(&[2, 3, 4]).1, [2]);
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_a_tree_or_a_fault(
            nodes in prop::collection::vec((0_u32..4, 0_u32..6, -0.2_f64..1.2), 0..10)
        ) {
            let tokens: Vec<Token> = nodes.iter().map(|node| node.0).collect();
            let parents: Vec<u32> = nodes.iter().map(|node| node.1).collect();
            let probs: Vec<f64> = nodes.iter().map(|node| node.2).collect();
            if let Ok(tree) = Tree::parse(&BOUNDS, &tokens, &parents, &probs) {
                prop_assert_eq!(tree.len(), nodes.len());
                for (id, node) in (1..).zip(tree.nodes()) {
                    prop_assert!(node.parent < id && node.depth <= BOUNDS.max_depth);
                    prop_assert_eq!(tree.path(id).len(), node.depth);
                    prop_assert_eq!(tree.child_with(node.parent, node.token), Some(id));
                    let above = tree.node(node.parent).map_or(1.0, |above| above.path_prob);
                    prop_assert!(node.path_prob <= above);
                }
            }
        }
    }
}
