//! Grows a sequence's tree level by level, under its policy and within its limits.

use crate::draft::{Draft, Expansion, keep_best};
use crate::tree::{MAX_TREE_NODES, Node, Tree};
use crate::{Candidates, Limits, Policy, PolicySpec, RoundRecord, RoundStart, Token};

/// Why a level could not be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrowError {
    /// There must be one set of candidates for each frontier node.
    #[error("{found} sets of candidates came for a frontier of {expected} nodes")]
    Frontier {
        /// Nodes in the frontier.
        expected: usize,
        /// Sets of candidates given.
        found: usize,
    },
}

/// What a round drafted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proposal {
    /// The tree to send.
    pub tree: Tree,
    /// The draft number of each node sent: node `i + 1` of `tree` was draft node
    /// `drafted_ids[i]`.
    pub drafted_ids: Vec<usize>,
    /// Nodes drafted, before any were dropped.
    pub drafted: usize,
    /// Nodes run at each level; the first is 1, the root.
    pub widths: Vec<usize>,
}

/// Drives one sequence's policy, round after round.
///
/// It asks for what to run ([`Self::frontier`]) and is told the result ([`Self::extend`]), so an
/// engine can advance many sequences at once and batch their forward passes.
///
/// # Examples
/// ```
/// use espalier_speculation::{Candidates, Costs, Grower, Limits, RoundStart, parse_policy};
/// let mut grower = Grower::new(&parse_policy("constant,k=2")?, vec![]);
/// let limits = Limits { max_nodes: 64, max_depth: 16 };
/// grower.begin_round(&RoundStart { costs: Costs::default(), limits, position: 9, seed: 0 });
/// while let Some(frontier) = grower.frontier() {
///     let logits = vec![[0.0_f32, 3.0, 1.0]; frontier.len()]; // run the draft model here
///     let candidates: Result<Vec<_>, _> =
///         logits.iter().map(|row| Candidates::from_logits(row, grower.width())).collect();
///     grower.extend(&candidates?)?;
/// }
/// assert_eq!(grower.finish().tree.len(), 2);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Grower {
    policy: Box<dyn Policy>,
    own_limits: Limits,
    stops: Vec<Token>,
    limits: Limits,
    draft: Draft,
    frontier: Vec<usize>,
    sent: RoundRecord,
}

impl Grower {
    /// A grower for one sequence. A node that carries one of `stops` (end of sequence, stop
    /// tokens) is never expanded.
    pub fn new(spec: &PolicySpec, stops: Vec<Token>) -> Self {
        Self {
            policy: spec.build(),
            own_limits: spec.limits(),
            stops,
            limits: spec.limits(),
            draft: Draft::default(),
            frontier: Vec::new(),
            sent: RoundRecord::default(),
        }
    }

    /// Starts a round; what an unfinished one drafted is forgotten.
    pub fn begin_round(&mut self, start: &RoundStart) {
        self.limits = self.own_limits.min(start.limits);
        self.draft = Draft::default();
        self.policy.begin(&RoundStart { limits: self.limits, ..*start });
        self.frontier = self.next_frontier();
    }

    /// The draft nodes to run next, in order; the first level is the root, `[0]`. `None`: the
    /// round has drafted what it wants.
    pub fn frontier(&self) -> Option<&[usize]> {
        (!self.frontier.is_empty()).then_some(&self.frontier)
    }

    /// How many candidates each frontier node should bring; more are ignored.
    pub fn width(&self) -> usize {
        self.policy.width()
    }

    /// The draft node `id`, as numbered by [`Self::frontier`]; `None` for the root.
    pub fn node(&self, id: usize) -> Option<&Node> {
        self.draft.node(id)
    }

    /// Adds a level: the candidates of each frontier node, in the frontier's order.
    ///
    /// # Errors
    /// A number of candidates other than the frontier's; nothing is added then.
    pub fn extend(&mut self, candidates: &[Candidates]) -> Result<(), GrowError> {
        let (expected, found) = (self.frontier.len(), candidates.len());
        if expected != found {
            return Err(GrowError::Frontier { expected, found });
        }
        let level = self.new_level(candidates);
        self.draft.begin_level(expected);
        for node in level {
            let stops = self.stops.contains(&node.token);
            self.draft.push(node, stops);
        }
        if self.policy.trims() {
            self.draft.trim(self.limits.max_nodes);
        }
        self.frontier = self.next_frontier();
        Ok(())
    }

    /// Ends the round: what to send.
    pub fn finish(&mut self) -> Proposal {
        self.frontier.clear();
        let draft = std::mem::take(&mut self.draft);
        let max_nodes = self.limits.max_nodes.min(MAX_TREE_NODES);
        let mut kept = self.policy.keep(&draft);
        kept.sort_unstable();
        kept.dedup();
        let proposal = send(&draft, draft.best(kept.into_iter(), max_nodes));
        self.sent = RoundRecord {
            drafted: proposal.drafted,
            verified: proposal.tree.len(),
            depth: proposal.tree.depth(),
            ..RoundRecord::default()
        };
        proposal
    }

    /// Tells the policy how its last proposal went, and returns the round's counts.
    ///
    /// `accepted` drafted tokens are among the `committed` ones; those cut off are in neither.
    pub fn observe(&mut self, accepted: usize, committed: usize) -> RoundRecord {
        let round = RoundRecord { accepted, committed, ..std::mem::take(&mut self.sent) };
        self.policy.observe(&round);
        round
    }

    /// The children of the frontier, at most as many as the policy allows in one level.
    fn new_level(&mut self, candidates: &[Candidates]) -> Vec<Node> {
        let width = self.policy.width();
        let mut level = Vec::new();
        for (&id, candidates) in self.frontier.iter().zip(candidates) {
            let fan_out = self.policy.fan_out(candidates).min(width);
            self.draft.expanded(id, Expansion::of(candidates, fan_out));
            let children = candidates.tokens().iter().take(fan_out);
            level.extend(children.map(|&candidate| self.draft.child(id, candidate)));
        }
        keep_best(&mut level, self.policy.level_max(), |node| node.path_prob);
        level
    }

    fn next_frontier(&mut self) -> Vec<usize> {
        if self.limits.max_nodes == 0 || self.draft.levels() >= self.limits.max_depth {
            return Vec::new();
        }
        let mut frontier = self.policy.expand(&self.draft);
        frontier.retain(|&id| self.draft.is_expandable(id));
        frontier.sort_unstable();
        frontier.dedup();
        frontier
    }
}

/// The tree of the draft nodes `kept`, which are in order; orphans are left out.
fn send(draft: &Draft, kept: Vec<usize>) -> Proposal {
    let nodes = kept.into_iter().filter_map(|id| Some((id, *draft.node(id)?)));
    let (tree, drafted_ids) = Tree::of_connected(nodes);
    Proposal { tree, drafted_ids, drafted: draft.len(), widths: draft.widths().to_vec() }
}
