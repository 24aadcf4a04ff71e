//! Drafting without a model: what followed this text the last time?

use crate::draft::keep_best;
use crate::tree::{MAX_TREE_NODES, Node};
use crate::{Token, Tree};

/// Earlier occurrences looked at in one proposal, the latest first.
const OCCURRENCES_MAX: usize = 32;

/// Nodes that one proposal may weigh before keeping the best.
const WEIGHED_MAX: usize = 512;

/// What an n-gram proposal is held to. A zero anywhere proposes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NgramLimits {
    /// Longest suffix to look for, in tokens.
    pub max_suffix: usize,
    /// Most nodes proposed.
    pub max_nodes: usize,
    /// Most tokens proposed after one another.
    pub max_depth: usize,
}

impl Default for NgramLimits {
    /// A suffix of 4, 11 nodes, depth 11: what a round without a drafter can afford.
    fn default() -> Self {
        Self { max_suffix: 4, max_nodes: 11, max_depth: 11 }
    }
}

/// Proposes what followed the longest suffix of `committed` that occurred before, down to a
/// suffix of one token; the empty tree if none did.
///
/// Several occurrences make a tree: a child's probability is the share of its parent's
/// occurrences that went on with it, and the `max_nodes` most probable nodes are kept (ties:
/// smaller depth, then the later occurrence). Nothing follows a token of `stops`. The work is
/// bounded by `committed.len() * max_suffix` plus a constant.
pub fn propose_ngram(committed: &[Token], stops: &[Token], limits: &NgramLimits) -> Tree {
    let ends = occurrences(committed, limits.max_suffix);
    let mut counts = Counts::default();
    let mut tips: Vec<Tip> = ends.into_iter().map(|next| Tip { node: 0, next }).collect();
    for _ in 0..limits.max_depth {
        tips.retain_mut(|tip| counts.advance(tip, committed, stops));
    }
    let mut nodes: Vec<(usize, Node)> = (1..).zip(counts.into_nodes()).collect();
    keep_best(&mut nodes, limits.max_nodes.min(MAX_TREE_NODES), |(_, node)| node.path_prob);
    Tree::of_connected(nodes).0
}

/// Where the longest recurring suffix of `text` ended before, the latest first: indices of the
/// token that followed.
fn occurrences(text: &[Token], max_suffix: usize) -> Vec<usize> {
    let mut longest = 1;
    let mut ends = Vec::new();
    for end in (1..text.len()).rev() {
        let length = common_suffix(&text[..end], text, max_suffix);
        if length > longest {
            longest = length;
            ends.clear();
        }
        if length == longest && ends.len() < OCCURRENCES_MAX {
            ends.push(end);
        }
    }
    ends
}

/// Tokens that `a` and `b` end with in common, at most `max`.
fn common_suffix(a: &[Token], b: &[Token], max: usize) -> usize {
    let pairs = a.iter().rev().zip(b.iter().rev());
    pairs.take(max).take_while(|(a, b)| a == b).count()
}

/// One occurrence being followed: the node it has reached, and where its text goes on.
struct Tip {
    node: usize,
    next: usize,
}

/// How often each continuation was seen: a tree of tokens, level by level.
#[derive(Default)]
struct Counts {
    /// How often the root was followed by anything.
    followed: usize,
    /// Node `i` is at `i - 1`.
    nodes: Vec<Count>,
}

struct Count {
    token: Token,
    parent: usize,
    seen: usize,
    followed: usize,
}

impl Counts {
    /// Moves `tip` one token on; false if nothing follows it.
    fn advance(&mut self, tip: &mut Tip, text: &[Token], stops: &[Token]) -> bool {
        let Some(&token) = text.get(tip.next) else {
            return false;
        };
        let Some(node) = self.child(tip.node, token) else {
            return false;
        };
        *self.followed(tip.node) += 1;
        self.nodes[node - 1].seen += 1;
        *tip = Tip { node, next: tip.next + 1 };
        !stops.contains(&token)
    }

    /// The child of `parent` with `token`, made if there is room for it.
    fn child(&mut self, parent: usize, token: Token) -> Option<usize> {
        let same = |node: &Count| node.parent == parent && node.token == token;
        if let Some(index) = self.nodes.iter().position(same) {
            return Some(index + 1);
        }
        if self.nodes.len() == WEIGHED_MAX {
            return None;
        }
        self.nodes.push(Count { token, parent, seen: 0, followed: 0 });
        Some(self.nodes.len())
    }

    fn followed(&mut self, node: usize) -> &mut usize {
        match node.checked_sub(1) {
            None => &mut self.followed,
            Some(index) => &mut self.nodes[index].followed,
        }
    }

    fn into_nodes(mut self) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::with_capacity(self.nodes.len());
        for index in 0..self.nodes.len() {
            let Count { token, parent, seen, .. } = self.nodes[index];
            let prob = seen as f64 / *self.followed(parent) as f64;
            let above = parent.checked_sub(1).map(|above| nodes[above]);
            nodes.push(Node::child(parent, above.as_ref(), token, prob));
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: NgramLimits = NgramLimits { max_suffix: 3, max_nodes: 8, max_depth: 3 };

    /// Token, parent and probability of each node.
    fn proposed(text: &[Token]) -> Vec<(Token, usize, f64)> {
        let tree = propose_ngram(text, &[], &LIMITS);
        tree.nodes().iter().map(|node| (node.token, node.parent, node.prob)).collect()
    }

    #[test]
    fn what_followed_the_suffix_before_is_proposed() {
        assert_eq!(proposed(&[7, 8, 1, 2, 3, 9, 7, 8]), [(1, 0, 1.0), (2, 1, 1.0), (3, 2, 1.0)]);
    }

    #[test]
    fn the_longest_suffix_decides_though_a_shorter_one_is_more_frequent() {
        assert_eq!(proposed(&[5, 8, 1, 6, 8, 2, 6, 8, 2, 5, 8]), [(1, 0, 1.0), (6, 1, 1.0), (8, 2, 1.0)]);
    }

    #[test]
    fn several_occurrences_make_a_tree_with_their_shares() {
        let nodes = proposed(&[8, 1, 4, 8, 2, 4, 8, 1, 5, 8]);
        let (third, half) = (1.0 / 3.0, 0.5);
        // The likelier first, then the later; what has 1/3 waits for all of the level above.
        assert_eq!(
            nodes,
            [
                (1, 0, 2.0 * third),
                (2, 0, third),
                (5, 1, half),
                (4, 2, 1.0),
                (4, 1, half),
                (8, 3, 1.0),
                (8, 4, 1.0),
                (8, 5, 1.0),
            ]
        );
    }

    #[test]
    fn a_repetition_is_followed_to_the_end_of_the_text() {
        assert_eq!(proposed(&[3, 3, 3]), [(3, 0, 1.0)]);
    }

    #[test]
    fn without_a_recurrence_nothing_is_proposed() {
        assert_eq!(proposed(&[]), []);
        assert_eq!(proposed(&[1]), []);
        assert_eq!(proposed(&[1, 2, 3]), []);
    }

    #[test]
    fn nothing_follows_a_stop_token() {
        let tree = propose_ngram(&[8, 1, 2, 8], &[1], &LIMITS);
        assert_eq!(tree.len(), 1);
    }

    #[test]
    fn a_limit_of_0_proposes_nothing() {
        for limits in [
            NgramLimits { max_suffix: 0, ..LIMITS },
            NgramLimits { max_nodes: 0, ..LIMITS },
            NgramLimits { max_depth: 0, ..LIMITS },
        ] {
            assert!(propose_ngram(&[1, 2, 1], &[], &limits).is_empty(), "{limits:?}");
        }
    }

    proptest! {
        #[test]
        fn proposals_are_valid_trees_within_their_limits(
            text in prop::collection::vec(0_u32..4, 0..200),
            max_suffix in 0_usize..6, max_nodes in 0_usize..40, max_depth in 0_usize..20
        ) {
            let limits = NgramLimits { max_suffix, max_nodes, max_depth };
            let tree = propose_ngram(&text, &[3], &limits);
            prop_assert!(tree.len() <= max_nodes && tree.depth() <= max_depth);
            let mut rebuilt = Tree::new();
            for node in tree.nodes() {
                let above = tree.node(node.parent);
                prop_assert!(above.is_none_or(|above| above.token != 3));
                prop_assert!(rebuilt.push(node.parent, node.token, node.prob).is_ok());
            }
            prop_assert_eq!(rebuilt, tree);
        }
    }
}
