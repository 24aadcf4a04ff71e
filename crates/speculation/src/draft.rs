//! The tree while it grows: every node drafted this round, kept or not.

use std::cmp::Ordering;

use crate::tree::Node;
use crate::{Candidates, Shape, Token};

/// The nodes drafted so far in a round, as a policy sees them.
///
/// Draft nodes are numbered from 1 in the order they were made, the root being 0: by depth, then
/// by parent, then by falling probability. Dropping a node leaves its number unused.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    nodes: Vec<DraftNode>,
    /// Number of the first node of the newest level; 0 before the first.
    newest: usize,
    widths: Vec<usize>,
    /// What running each node told, by rising number.
    expansions: Vec<(usize, Expansion)>,
}

#[derive(Debug, Clone, Copy)]
struct DraftNode {
    node: Node,
    kept: bool,
    /// It carries a stop token: nothing can follow it.
    stops: bool,
}

/// What running a node told: the distribution its children were taken from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expansion {
    /// Confidence and entropy of the distribution.
    pub shape: Shape,
    /// The predicted chance that the target takes the token drafted here: [`Candidates::predicted`].
    pub predicted: Option<f64>,
}

impl Draft {
    /// Levels drafted so far.
    pub fn levels(&self) -> usize {
        self.widths.len()
    }

    /// Nodes drafted so far, dropped ones included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nothing has been drafted yet.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Nodes run at each level; the first, the root, is 1.
    pub fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// Node `id`, dropped or not; `None` for the root.
    pub fn node(&self, id: usize) -> Option<&Node> {
        Some(&self.nodes.get(id.checked_sub(1)?)?.node)
    }

    /// The `path_prob` of node `id`; 1 for the root.
    pub fn path_prob(&self, id: usize) -> f64 {
        self.node(id).map_or(1.0, |node| node.path_prob)
    }

    /// What running node `id` told, if it was run.
    pub fn expansion(&self, id: usize) -> Option<&Expansion> {
        let index = self.expansions.binary_search_by_key(&id, |run| run.0).ok()?;
        Some(&self.expansions[index].1)
    }

    /// Whether node `id` is of the newest level, still kept, and may be continued.
    pub fn is_expandable(&self, id: usize) -> bool {
        match id.checked_sub(1) {
            None => self.nodes.is_empty() && self.levels() == 0,
            Some(index) => id >= self.newest && self.nodes.get(index).is_some_and(|node| node.kept && !node.stops),
        }
    }

    /// The newest level's kept nodes, in order; before the first level, the root.
    pub fn newest(&self) -> impl Iterator<Item = usize> {
        let kept = |id: usize| id.checked_sub(1).is_none_or(|index| self.nodes[index].kept);
        (self.newest..=self.nodes.len()).filter(move |&id| kept(id))
    }

    /// Those of the newest level that may be continued, in order; before the first level, the
    /// root.
    pub fn expandable(&self) -> impl Iterator<Item = usize> {
        self.newest().filter(|&id| self.is_expandable(id))
    }

    /// Every node that is kept, in order.
    pub fn kept(&self) -> impl Iterator<Item = usize> {
        (1..=self.nodes.len()).filter(|&id| self.nodes[id - 1].kept)
    }

    /// The `n` of `ids` with the greatest `path_prob` (ties: smaller depth, then smaller id), in
    /// order.
    ///
    /// Of all kept nodes these are always connected, as `path_prob` never rises along a path.
    pub fn best(&self, ids: impl Iterator<Item = usize>, n: usize) -> Vec<usize> {
        let mut ids: Vec<usize> = ids.collect();
        keep_best(&mut ids, n, |&id| self.path_prob(id));
        ids
    }

    /// What the newest level's best node was taken from; a stop test judges a level by it.
    pub fn newest_source(&self) -> Option<&Expansion> {
        let best = *self.best(self.newest(), 1).first()?;
        self.expansion(self.node(best)?.parent)
    }

    /// Starts over, with the memory of the last round.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.widths.clear();
        self.expansions.clear();
        self.newest = 0;
    }

    /// Starts a level: `width` nodes were run.
    pub(crate) fn begin_level(&mut self, width: usize) {
        self.widths.push(width);
        self.newest = self.nodes.len() + 1;
    }

    /// Notes what running node `id` told; nodes are run by rising number.
    pub(crate) fn expanded(&mut self, id: usize, expansion: Expansion) {
        self.expansions.push((id, expansion));
    }

    /// The node that would continue `parent`; it is not part of the draft yet.
    pub(crate) fn child(&self, parent: usize, token: Token, prob: f64) -> Node {
        Node::child(parent, self.node(parent), token, prob)
    }

    /// Adds a node to the newest level.
    pub(crate) fn push(&mut self, node: Node, stops: bool) {
        self.nodes.push(DraftNode { node, kept: true, stops });
    }

    /// Drops all kept nodes but the `n` best.
    pub(crate) fn trim(&mut self, n: usize) {
        if self.nodes.len() <= n {
            return;
        }
        let kept = self.best(self.kept(), n);
        self.nodes.iter_mut().for_each(|node| node.kept = false);
        for id in kept {
            self.nodes[id - 1].kept = true;
        }
    }
}

impl Expansion {
    /// What `candidates` tell.
    pub(crate) fn of(candidates: &Candidates) -> Self {
        Self { shape: candidates.shape(), predicted: candidates.predicted() }
    }
}

/// Keeps the `n` items of greatest probability, equals by position, in their order.
pub(crate) fn keep_best<T>(items: &mut Vec<T>, n: usize, path_prob: impl Fn(&T) -> f64) {
    if n >= items.len() {
        return;
    }
    let mut ranked: Vec<(f64, usize)> = items.iter().map(path_prob).zip(0..).collect();
    let best_first = |a: &(f64, usize), b: &(f64, usize)| -> Ordering { b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)) };
    ranked.select_nth_unstable_by(n, best_first);
    let mut chosen = vec![false; items.len()];
    for &(_, position) in &ranked[..n] {
        chosen[position] = true;
    }
    let mut chosen = chosen.into_iter();
    items.retain(|_| chosen.next().unwrap_or(false));
}
