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
    /// A suffix of 4, 8 nodes, depth 8: what a round without a drafter can afford.
    fn default() -> Self {
        Self { max_suffix: 4, max_nodes: 8, max_depth: 8 }
    }
}

/// Proposes what followed the longest suffix of `committed` that occurred before, down to a
/// suffix of one token; the empty tree if none did.
///
/// Several occurrences make a tree: a child's probability is the share of its parent's
/// occurrences that went on with it, and the `max_nodes` most probable nodes are kept (ties:
/// smaller depth, then the later occurrence). Nothing follows a token of `stops`. The work is
/// bounded by `committed.len() * max_suffix`.
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
