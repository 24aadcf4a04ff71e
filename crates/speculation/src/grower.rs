//! Grows a sequence's tree level by level, under its policy and within its limits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::draft::{Draft, Expansion};
use crate::tree::{MAX_TREE_NODES, Node, Tree};
use crate::{Candidates, Experience, Limits, Policy, PolicySpec, PruningPolicy, RoundRecord, RoundStart, Token};

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
    /// How many children each frontier node gets: kept for its memory.
    counts: Vec<usize>,
    /// The last proposal's counts, and the draft number of each node sent.
    sent: (RoundRecord, Vec<usize>),
}

impl Grower {
    /// A grower for one sequence. A node that carries one of `stops` (end of sequence, stop
    /// tokens) is never expanded.
    pub fn new(spec: &PolicySpec, stops: Vec<Token>) -> Self {
        Self::under(spec.build(), spec.limits(), stops)
    }

    /// The same for rejection acceptance: candidates are drawn ([`crate::draw_candidates`]), and beyond `max_nodes`
    /// the nodes made first stay instead of the best.
    ///
    /// # Errors
    /// A policy that chooses among drawn tokens by their own probability.
    pub fn for_drawn(spec: &PolicySpec, stops: Vec<Token>) -> Result<Self, PruningPolicy> {
        Ok(Self::under(spec.build_for_drawn()?, spec.limits(), stops))
    }

    fn under(policy: Box<dyn Policy>, own_limits: Limits, stops: Vec<Token>) -> Self {
        Self {
            policy,
            own_limits,
            stops,
            limits: own_limits,
            draft: Draft::default(),
            frontier: Vec::new(),
            counts: Vec::new(),
            sent: Default::default(),
        }
    }

    /// What the policy learns that holds beyond this sequence, if it learns such things.
    pub fn experience(&self) -> Option<Experience> {
        self.policy.experience()
    }

    /// Learns together with a grower of the same policy, drafter and target from now on.
    pub fn build_on(&mut self, experience: &Experience) {
        self.policy.build_on(experience);
    }

    /// Whether the policy makes something of a predictor's chances: [`Candidates::predicting`].
    pub fn reads_predictions(&self) -> bool {
        self.policy.reads_predictions()
    }

    /// Starts a round; what an unfinished one drafted is forgotten.
    pub fn begin_round(&mut self, start: &RoundStart) {
        self.limits = self.own_limits.min(start.limits);
        self.draft.clear();
        self.policy.begin(&RoundStart { limits: self.limits, ..*start });
        self.frontier = self.next_frontier();
    }

    /// Whether nothing can follow `token`.
    fn stops_at(&self, token: Token) -> bool {
        self.stops.contains(&token)
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

    /// All nodes that the round has drafted, kept or not, by their draft numbers.
    pub fn drafted(&self) -> Tree {
        Tree::of_connected((1..=self.draft.len()).filter_map(|id| Some((id, *self.draft.node(id)?)))).0
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
        self.add_level(candidates);
        if self.policy.trims() {
            self.draft.trim(self.limits.max_nodes);
        }
        self.frontier = self.next_frontier();
        Ok(())
    }

    /// Ends the round: what to send.
    pub fn finish(&mut self) -> Proposal {
        self.frontier.clear();
        let max_nodes = self.limits.max_nodes.min(MAX_TREE_NODES);
        let mut kept = self.policy.keep(&self.draft);
        kept.sort_unstable();
        kept.dedup();
        let proposal = send(&self.draft, self.draft.best(kept.into_iter(), max_nodes));
        let counts = RoundRecord {
            drafted: proposal.drafted,
            verified: proposal.tree.len(),
            depth: proposal.tree.depth(),
            ..RoundRecord::default()
        };
        self.sent = (counts, proposal.drafted_ids.clone());
        proposal
    }

    /// Tells the policy how its last proposal went, and returns the round's counts.
    ///
    /// `path` is what was accepted of the tree sent, from the root (excluded) downwards; with the
    /// target's own tokens, `committed` tokens came of it. What was cut off is in neither.
    pub fn observe(&mut self, path: &[usize], committed: usize) -> RoundRecord {
        let (sent, ids) = std::mem::take(&mut self.sent);
        let round = RoundRecord { accepted: path.len(), committed, ..sent };
        let path: Vec<usize> = path.iter().filter_map(|node| ids.get(node.checked_sub(1)?).copied()).collect();
        self.policy.observe(&round, &path);
        round
    }

    /// Adds the children of the frontier, at most as many as the policy allows in one level.
    fn add_level(&mut self, candidates: &[Candidates]) {
        let width = self.policy.width();
        let fan_out = |candidates| self.policy.fan_out(candidates).min(width);
        let mut counts = std::mem::take(&mut self.counts);
        counts.clear();
        counts.extend(candidates.iter().map(|node| fan_out(node).min(node.tokens().len())));
        self.shrink(candidates, &mut counts);
        self.draft.begin_level(candidates.len());
        for ((&id, candidates), &count) in self.frontier.iter().zip(candidates).zip(&counts) {
            self.draft.expanded(id, Expansion::of(candidates));
            for &(token, prob) in &candidates.tokens()[..count] {
                let child = self.draft.child(id, token, prob);
                self.draft.push(child, self.stops_at(child.token));
            }
        }
        self.counts = counts;
    }

    /// Lowers each frontier node's number of children until the level holds no more than the policy wants: its best.
    ///
    /// Candidates come best first, so the best of a level are the first few of each node; they are found by merging,
    /// without looking at the others.
    fn shrink(&self, candidates: &[Candidates], counts: &mut [usize]) {
        let most = self.policy.level_max();
        if counts.iter().sum::<usize>() <= most {
            return;
        }
        // Probabilities are not negative, so their bits are in the same order; equals go by position.
        let next = |parent: usize, taken: usize| {
            let prob = candidates[parent].tokens()[..counts[parent]].get(taken)?.1;
            Some((self.draft.path_prob(self.frontier[parent]) * prob).to_bits())
        };
        let heads = (0..counts.len()).filter_map(|parent| Some((next(parent, 0)?, Reverse(parent))));
        let mut heads: BinaryHeap<(u64, Reverse<usize>)> = heads.collect();
        let mut taken = vec![0; counts.len()];
        for _ in 0..most {
            let Some(mut best) = heads.peek_mut() else { break };
            let Reverse(parent) = best.1;
            taken[parent] += 1;
            match next(parent, taken[parent]) {
                Some(prob) => best.0 = prob,
                None => drop(PeekMut::pop(best)),
            }
        }
        counts.copy_from_slice(&taken);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{LIMITS, draft, grower, random_probs, start};
    use crate::{parse_policy, policy_names};

    /// Every policy, and every tree policy with every test on it.
    fn all_policies() -> Vec<String> {
        let stopped = |name| policy_names().map(move |test| format!("{name},stop={test},every=2"));
        let composed = policy_names().flat_map(stopped).filter(|text| parse_policy(text).is_ok());
        policy_names().map(str::to_owned).chain(composed).collect()
    }

    #[test]
    fn it_can_move_between_threads() {
        fn check<T: Send>() {}
        check::<Grower>();
    }

    #[test]
    fn before_its_first_round_it_wants_nothing() {
        let mut grower = grower("pct", &[]);
        assert_eq!(grower.frontier(), None);
        assert_eq!(grower.finish(), Proposal::default());
    }

    #[test]
    fn a_round_starts_at_the_root_and_goes_on_with_what_was_drafted() {
        let mut grower = grower("constant,k=2", &[]);
        grower.begin_round(&start(LIMITS));
        assert_eq!((grower.frontier(), grower.width()), (Some(&[0][..]), 1));
        grower.extend(&[Candidates::from_probs(&[0.2, 0.8], 1).unwrap()]).unwrap();
        assert_eq!(grower.frontier(), Some(&[1][..]));
        assert_eq!(grower.node(1).map(|node| node.token), Some(1));
        grower.extend(&[Candidates::from_probs(&[0.9, 0.1], 1).unwrap()]).unwrap();
        assert_eq!(grower.frontier(), None);
        let proposal = grower.finish();
        assert_eq!(proposal.tree.nodes().iter().map(|node| node.token).collect::<Vec<_>>(), [1, 0]);
        assert_eq!((proposal.drafted, proposal.widths, proposal.drafted_ids), (2, vec![1, 1], vec![1, 2]));
    }

    #[test]
    fn a_level_of_another_width_is_refused_and_changes_nothing() {
        let mut grower = grower("constant", &[]);
        grower.begin_round(&start(LIMITS));
        assert_eq!(grower.extend(&[]), Err(GrowError::Frontier { expected: 1, found: 0 }));
        assert_eq!(grower.frontier(), Some(&[0][..]));
    }

    #[test]
    fn a_stop_token_is_drafted_but_never_expanded() {
        let mut grower = grower("vanilla-tree,width=2,depth=3", &[1]);
        let tree = draft(&mut grower, &start(LIMITS), |_| vec![0.5, 0.5]).tree;
        assert_eq!(tree.len(), 2 + 2 + 2);
        assert!(tree.nodes().iter().any(|node| node.token == 1));
        assert!(tree.nodes().iter().all(|node| tree.node(node.parent).is_none_or(|above| above.token != 1)));
    }

    #[test]
    fn what_was_dropped_is_not_in_the_numbers_sent() {
        // The second child of the root (0.25) is below the threshold, so draft node 2 is not sent.
        let mut grower = grower("pct,width=2,ratio=0.5,leaf_threshold=0.3,max_depth=2", &[]);
        let proposal = draft(&mut grower, &start(LIMITS), |_| vec![0.75, 0.25]);
        assert_eq!((proposal.drafted, proposal.drafted_ids), (4, vec![1, 3]));
        assert_eq!(grower.drafted().nodes().iter().map(|node| node.parent).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert_eq!(proposal.tree.nodes().iter().map(|node| node.parent).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn the_rounds_limits_bind_where_they_are_tighter() {
        for policy in policy_names() {
            let mut grower = grower(policy, &[]);
            let tight = start(Limits { max_nodes: 3, max_depth: 2 });
            let tree = draft(&mut grower, &tight, |node| random_probs(1, node, 20)).tree;
            assert!(tree.len() <= 3 && tree.depth() <= 2, "{policy}");
            let nothing = start(Limits { max_nodes: 64, max_depth: 0 });
            assert_eq!(draft(&mut grower, &nothing, |_| vec![1.0]), Proposal::default(), "{policy}");
        }
    }

    #[test]
    fn a_round_is_counted_once() {
        let mut grower = grower("constant,k=3", &[]);
        draft(&mut grower, &start(LIMITS), |_| vec![1.0]);
        let expected = RoundRecord { drafted: 3, verified: 3, depth: 3, accepted: 1, committed: 2 };
        assert_eq!(grower.observe(&[1], 2), expected);
        assert_eq!(grower.observe(&[], 1), RoundRecord { committed: 1, ..RoundRecord::default() });
    }

    #[test]
    fn rounds_do_not_leak_into_each_other() {
        let mut grower = grower("eagle2", &[]);
        let first = draft(&mut grower, &start(LIMITS), |node| random_probs(1, node, 20));
        grower.begin_round(&start(LIMITS));
        assert_eq!(draft(&mut grower, &start(LIMITS), |node| random_probs(1, node, 20)), first);
    }

    /// Topological and connected, without siblings of one token, and no path likelier than the one it continues.
    fn check_tree(tree: &Tree) -> Result<(), TestCaseError> {
        let mut rebuilt = Tree::new();
        for node in tree.nodes() {
            prop_assert!(rebuilt.push(node.parent, node.token, node.prob).is_ok());
            prop_assert!(node.path_prob <= tree.node(node.parent).map_or(1.0, |above| above.path_prob));
        }
        prop_assert_eq!(&rebuilt, tree);
        prop_assert!(tree.nodes().is_sorted_by_key(|node| node.depth));
        Ok(())
    }

    #[test]
    fn every_chain_policy_stops_every_tree_policy() {
        let chains = policy_names().filter(|name| parse_policy(&format!("eagle2,stop={name}")).is_ok()).count();
        let trees = policy_names().count() - chains;
        assert_eq!((chains, all_policies().len()), (5, chains + trees * (1 + chains)));
    }

    proptest! {
        #[test]
        fn every_policy_sends_a_valid_tree_in_every_round(
            index in 0..all_policies().len(), seed: u64, vocab in 1_u32..12, max_nodes in 0_usize..40
        ) {
            let mut grower = grower(&all_policies()[index], &[0]);
            let begin = RoundStart { seed, ..start(Limits { max_nodes, max_depth: 6 }) };
            for position in 0..3 {
                let begin = RoundStart { position, ..begin };
                let probs = |node| random_probs(seed ^ position, node, vocab);
                let Proposal { tree, drafted_ids, drafted, widths } = draft(&mut grower, &begin, probs);
                prop_assert!(tree.len() <= max_nodes && widths.len() <= 6 && tree.depth() <= widths.len());
                prop_assert!(tree.len() <= drafted && widths.first().is_none_or(|&width| width == 1));
                prop_assert!(drafted_ids.len() == tree.len() && drafted_ids.is_sorted());
                check_tree(&tree)?;
                prop_assert!(tree.nodes().iter().all(|node| tree.node(node.parent).is_none_or(|above| above.token != 0)));
                let path = tree.path(tree.len());
                grower.observe(&path, path.len() + 1);
            }
        }
    }
}
