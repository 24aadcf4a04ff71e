//! A yardstick for draft policies: the most tokens a millisecond that a round can make, known with hindsight.
//!
//! With every probability and cost given, a round that drafts levels of `w_1, w_2, ...` nodes and sends a tree of `n`
//! nodes makes `(1 + A) / (T_d(w_1) + T_d(w_2) + ... + T_v(n))` tokens a millisecond, `A` being the sum of the
//! `path_prob` sent. A policy knows less: it pays for a level before it sees it.

use crate::Tree;

/// The costs of a round as straight lines, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearCosts {
    /// A draft level, whatever its width.
    pub level: f64,
    /// Each node run in a draft level.
    pub level_node: f64,
    /// A verification, whatever the tree.
    pub verification: f64,
    /// Each node verified beyond the free ones.
    pub verification_node: f64,
    /// Nodes verified at no cost of their own.
    pub free_nodes: usize,
}

impl LinearCosts {
    /// `T_d(w)`: a draft level of `width` nodes.
    pub fn level(&self, width: usize) -> f64 {
        self.level + self.level_node * width as f64
    }

    /// `T_v(n)`: the verification of a tree of `nodes`, its root not counted.
    pub fn verification(&self, nodes: usize) -> f64 {
        self.verification + self.verification_node * nodes.saturating_sub(self.free_nodes) as f64
    }
}

/// What sending the best nodes of so many levels makes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GainRate {
    /// Levels drafted.
    pub levels: usize,
    /// Nodes sent: those of greatest `path_prob`.
    pub nodes: usize,
    /// Tokens a millisecond.
    pub rate: f64,
}

/// For 0, 1, ... of the levels drafted, the best number of nodes to send, at most `max_nodes`, and its rate; ties go to
/// fewer nodes.
///
/// `drafted` holds every node drafted, and `widths` the nodes run at each level.
pub fn best_rates(drafted: &Tree, widths: &[usize], costs: &LinearCosts, max_nodes: usize) -> Vec<GainRate> {
    let best = |levels: usize| {
        let drafting: f64 = widths[..levels].iter().map(|&width| costs.level(width)).sum();
        best_of_levels(drafted, levels, max_nodes, |nodes| drafting + costs.verification(nodes))
    };
    (0..=widths.len()).map(best).collect()
}

/// The best of sending 0, 1, ... nodes after so many levels; `round` says how many milliseconds a round with so many
/// nodes takes.
fn best_of_levels(drafted: &Tree, levels: usize, max_nodes: usize, round: impl Fn(usize) -> f64) -> GainRate {
    let known = drafted.nodes().iter().filter(|node| node.depth <= levels);
    let mut path_probs: Vec<f64> = known.map(|node| node.path_prob).collect();
    path_probs.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut tokens = 1.0;
    let mut best = GainRate { levels, nodes: 0, rate: tokens / round(0) };
    for (nodes, path_prob) in (1..=max_nodes).zip(path_probs) {
        tokens += path_prob;
        let rate = tokens / round(nodes);
        if rate > best.rate {
            best = GainRate { levels, nodes, rate };
        }
    }
    best
}

/// Halvings of the interval that holds the bound: more than an `f64` can tell apart.
const HALVINGS: usize = 64;

/// The best rate of any connected part of `candidates` with at most `max_nodes` nodes, where only the nodes that have a
/// child in it are paid for. No policy that drafts these candidates is faster.
///
/// The search is exact. A rate can be beaten if and only if some part's tokens are worth more than its time at that
/// rate (Dinkelbach), and there the best part is made of the best parts below each node, by their sizes.
pub fn rate_bound(candidates: &Tree, costs: &LinearCosts, max_nodes: usize) -> f64 {
    let search = Search::new(candidates, costs, max_nodes.min(candidates.len()));
    let cheapest = costs.verification(0);
    let (mut reached, mut beyond) = (1.0 / cheapest, (2 + candidates.len()) as f64 / cheapest);
    for _ in 0..HALVINGS {
        let rate = (reached + beyond) / 2.0;
        if search.beats(rate) { reached = rate } else { beyond = rate }
    }
    reached
}

struct Search<'a> {
    candidates: &'a Tree,
    costs: &'a LinearCosts,
    max_nodes: usize,
    /// Each node's children, the root's first.
    children: Vec<Vec<usize>>,
}

impl<'a> Search<'a> {
    fn new(candidates: &'a Tree, costs: &'a LinearCosts, max_nodes: usize) -> Self {
        let mut children = vec![Vec::new(); candidates.len() + 1];
        for (id, node) in (1..).zip(candidates.nodes()) {
            children[node.parent].push(id);
        }
        Self { candidates, costs, max_nodes, children }
    }

    /// Whether some part makes more tokens than its time is worth at `rate` tokens a millisecond.
    fn beats(&self, rate: f64) -> bool {
        (0..=self.candidates.depth()).any(|levels| {
            let paid = 1.0 - rate * self.costs.level * levels as f64;
            let worth = self.below(rate, levels);
            let mut worth = worth.iter().enumerate();
            worth.any(|(nodes, worth)| paid + worth > rate * self.costs.verification(nodes))
        })
    }

    /// For 0, 1, ... nodes within `levels`, the greatest worth of a part of so many: its mass less what running its
    /// inner nodes costs.
    fn below(&self, rate: f64, levels: usize) -> Vec<f64> {
        let mut worth = vec![Vec::new(); self.children.len()];
        for id in (0..self.children.len()).rev() {
            let depth = self.candidates.node(id).map_or(0, |node| node.depth);
            let children = self.children[id].iter().filter(|_| depth < levels);
            let mut sums = children.fold(vec![0.0], |sums, &child| self.with_child(&sums, child, &worth[child]));
            sums.iter_mut().skip(1).for_each(|sum| *sum -= rate * self.costs.level_node);
            worth[id] = sums;
        }
        worth.swap_remove(0)
    }

    /// The best worth of each size among parts made of what `sums` are and of `child` with parts below it, or without.
    fn with_child(&self, sums: &[f64], child: usize, below: &[f64]) -> Vec<f64> {
        let mass = self.candidates.node(child).map_or(0.0, |node| node.path_prob);
        let sizes = (sums.len() + below.len()).min(self.max_nodes + 1);
        let mut best = vec![f64::NEG_INFINITY; sizes];
        let without = sums.iter().enumerate().map(|(size, &worth)| (size, worth));
        let with = sums.iter().enumerate().flat_map(|(size, &sum)| {
            below.iter().enumerate().map(move |(more, &worth)| (size + 1 + more, sum + mass + worth))
        });
        for (size, worth) in without.chain(with) {
            if let Some(best) = best.get_mut(size) {
                *best = best.max(worth);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::policy_names;
    use crate::testing::{draft_once, random_probs};

    const COSTS: LinearCosts =
        LinearCosts { level: 1.0, level_node: 0.5, verification: 10.0, verification_node: 1.0, free_nodes: 1 };

    /// A tree of these parents and probabilities, each node with another token.
    fn tree(nodes: &[(usize, f64)]) -> Tree {
        let mut tree = Tree::new();
        for (token, &(parent, prob)) in (0..).zip(nodes) {
            tree.push(parent, token, prob).unwrap();
        }
        tree
    }

    #[test]
    fn costs_are_lines_with_a_knee() {
        assert_eq!((COSTS.level(1), COSTS.level(3)), (1.5, 2.5));
        assert_eq!([0, 1, 2, 5].map(|nodes| COSTS.verification(nodes)), [10.0, 10.0, 11.0, 14.0]);
    }

    #[test]
    fn each_number_of_levels_has_its_best_number_of_nodes() {
        let drafted = tree(&[(0, 0.75), (0, 0.25), (1, 0.5), (1, 0.25)]);
        let found = best_rates(&drafted, &[1, 1], &COSTS, 10);
        let expected = [(0, 0, 1.0 / 10.0), (1, 2, 2.0 / 12.5), (2, 4, 2.5625 / 16.0)];
        assert_eq!(found, expected.map(|(levels, nodes, rate)| GainRate { levels, nodes, rate }));
        assert_eq!(best_rates(&drafted, &[1, 1], &COSTS, 1)[2].nodes, 1);
    }

    #[test]
    fn the_bound_is_plain_decoding_where_nothing_pays() {
        assert_eq!(rate_bound(&Tree::new(), &COSTS, 10), 0.1);
        assert_eq!(rate_bound(&tree(&[(0, 0.1)]), &COSTS, 10), 0.1);
    }

    /// The rate of the part of `candidates` with the nodes that `chosen` has a bit for, if it is connected.
    fn rate_of(candidates: &Tree, chosen: u32, max_nodes: usize) -> Option<f64> {
        let has = |id: usize| id == 0 || chosen & (1 << (id - 1)) != 0;
        let nodes: Vec<usize> = (1..=candidates.len()).filter(|&id| has(id)).collect();
        let nodes: Vec<_> = nodes.into_iter().filter_map(|id| candidates.node(id)).collect();
        if nodes.len() > max_nodes || nodes.iter().any(|node| !has(node.parent)) {
            return None;
        }
        let levels = nodes.iter().map(|node| node.depth).max().unwrap_or(0);
        let mut run: Vec<usize> = nodes.iter().map(|node| node.parent).collect();
        run.sort_unstable();
        run.dedup();
        let drafting = COSTS.level * levels as f64 + COSTS.level_node * run.len() as f64;
        let tokens = 1.0 + nodes.iter().map(|node| node.path_prob).sum::<f64>();
        Some(tokens / (drafting + COSTS.verification(nodes.len())))
    }

    /// The tree of all candidates: `probs` after each node above `depth`.
    fn all_candidates(depth: usize, probs: &[f64]) -> Tree {
        let (mut tree, mut id) = (Tree::new(), 0);
        while tree.node(id).map_or(0, |node| node.depth) < depth {
            for (token, &prob) in (0..).zip(probs) {
                tree.push(id, token, prob).unwrap();
            }
            id += 1;
        }
        tree
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_bound_is_the_best_of_all_connected_parts(
            nodes in prop::collection::vec((0_usize..8, 0.01_f64..1.0), 0..9), max_nodes in 0_usize..10
        ) {
            let mut candidates = Tree::new();
            for (token, (parent, prob)) in (0..).zip(nodes) {
                candidates.push(parent.min(candidates.len()), token, prob).unwrap();
            }
            let parts = 0..1_u32 << candidates.len();
            let best = parts.filter_map(|part| rate_of(&candidates, part, max_nodes)).fold(0.0, f64::max);
            let bound = rate_bound(&candidates, &COSTS, max_nodes);
            prop_assert!((bound - best).abs() < 1e-12, "{} is not {}", bound, best);
        }

        #[test]
        fn no_policy_beats_the_bound(index in 0..policy_names().count(), seed: u64) {
            let name = policy_names().nth(index).unwrap();
            let probs = random_probs(seed, 0, 2);
            let proposal = draft_once(&format!("{name},max_depth=4"), |_| probs.clone());
            let drafting: f64 = proposal.widths.iter().map(|&width| COSTS.level(width)).sum();
            let tokens = 1.0 + proposal.tree.nodes().iter().map(|node| node.path_prob).sum::<f64>();
            let rate = tokens / (drafting + COSTS.verification(proposal.tree.len()));
            let bound = rate_bound(&all_candidates(4, &probs), &COSTS, 64);
            prop_assert!(rate <= bound + 1e-12, "{}: {} > {}", name, rate, bound);
        }
    }
}
