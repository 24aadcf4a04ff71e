//! What the nodes at hand, and those of a further level, are worth at the present costs.

use super::followers::Following;
use super::ranked::Ranked;
use crate::{Costs, Limits};

/// The nodes of a round by falling chance, and what it costs to verify the best of them. All
/// costs are in tokens: milliseconds at the pace of the run.
#[derive(Default)]
pub(super) struct TreeValue {
    /// Price of a level of 0, 1, ... nodes, up to the widest there can be.
    levels: Vec<f64>,
    /// Price of verifying 0, 1, ... nodes, up to the most that may be sent.
    prices: Vec<f64>,
    /// The nodes that may be worth sending.
    nodes: Vec<Ranked>,
    sorted: bool,
    /// The last node of a full tree: what comes after it does not get in.
    last: Option<Ranked>,
    /// Spent on drafting so far.
    spent: f64,
    /// Levels that may still be drafted.
    levels_left: usize,
    /// Tokens that a millisecond is worth.
    pace: f64,
}

/// What a round is reckoned with.
pub(super) struct RoundPrices {
    pub(super) costs: Costs,
    /// Tokens that a millisecond is worth.
    pub(super) pace: f64,
    pub(super) limits: Limits,
    /// Most nodes expanded in a level.
    pub(super) widest: usize,
}

impl TreeValue {
    /// Starts a round.
    pub(super) fn begin(&mut self, round: &RoundPrices) {
        let RoundPrices { costs, pace, limits, widest } = round;
        self.pace = *pace;
        self.levels.clear();
        self.levels.extend((0..=*widest).map(|width| pace * costs.level.at(width)));
        self.prices.clear();
        self.prices.extend((0..=limits.max_nodes).map(|nodes| pace * costs.verification.at(nodes)));
        self.nodes.clear();
        self.sorted = true;
        self.last = None;
        self.spent = 0.0;
        self.levels_left = limits.max_depth;
    }

    /// Takes a drafted node into account.
    pub(super) fn offer(&mut self, node: Ranked) {
        if self.last.is_none_or(|last| node < last) {
            self.nodes.push(node);
            self.sorted = false;
        }
    }

    /// Pays for a level of `width` nodes.
    pub(super) fn spend(&mut self, width: usize) {
        self.spent += self.level_price(width);
        self.levels_left = self.levels_left.saturating_sub(1);
    }

    /// The numbers of the nodes worth sending.
    pub(super) fn best(&mut self) -> Vec<usize> {
        let count = self.count();
        self.nodes[..count].iter().map(|node| node.id()).collect()
    }

    /// How long the round takes if `sent` nodes are sent, in milliseconds.
    pub(super) fn ms(&self, sent: usize) -> f64 {
        (self.spent + self.price(sent)) / self.pace.max(f64::MIN_POSITIVE)
    }

    /// How many nodes of a next level are worth running, and pays for them: the first of `frontier`, likeliest first, each
    /// expected to have the children `following`.
    pub(super) fn level(&mut self, frontier: &[Ranked], following: &Following) -> usize {
        let threshold = self.threshold(frontier, following);
        let (mut best, mut width, mut sum) = (0.0, 0, 0.0);
        for (index, node) in frontier.iter().enumerate() {
            sum += following.gain(node.chance(), threshold).worth;
            let net = sum - self.level_price(index + 1);
            if net > best {
                (best, width) = (net, index + 1);
            }
        }
        if width > 0 {
            self.spend(width);
        }
        width
    }

    /// Whether several levels of one node pay together where the next one alone does not, and pays for the next if so.
    /// `chances` are those of the nodes that each level would bring.
    pub(super) fn chain(&mut self, chances: impl Iterator<Item = f64>) -> bool {
        let sent = self.count();
        let most = self.levels_left.min(self.room() - sent);
        let (mut sum, drafting) = (0.0, self.level_price(1));
        let pays = (1..=most).zip(chances).any(|(levels, chance)| {
            sum += chance;
            sum > self.price(sent + levels) - self.price(sent) + drafting * levels as f64
        });
        if pays {
            self.spend(1);
        }
        pays
    }

    /// The chance from which a child is worth sending: the price of a further node, averaged over
    /// as many as are to be expected; in a full tree, the chance of the node it would replace.
    fn threshold(&mut self, frontier: &[Ranked], following: &Following) -> f64 {
        let sent = self.count();
        if sent >= self.room() {
            return sent.checked_sub(1).map_or(f64::INFINITY, |last| self.nodes[last].chance());
        }
        let price = |more: usize| (self.price(sent + more) - self.price(sent)) / more as f64;
        let children = frontier.iter().map(|node| following.gain(node.chance(), price(1)).count);
        let expected = children.sum::<f64>().round() as usize;
        price(expected.clamp(1, self.room() - sent))
    }

    /// How many of the best nodes are worth sending.
    fn count(&mut self) -> usize {
        self.sort();
        let (mut best, mut count, mut sum) = (-self.price(0), 0, 0.0);
        for (index, node) in self.nodes.iter().enumerate() {
            sum += node.chance();
            let worth = sum - self.price(index + 1);
            if worth > best {
                (best, count) = (worth, index + 1);
            }
        }
        count
    }

    fn sort(&mut self) {
        if !self.sorted {
            let room = self.room();
            if self.nodes.len() > room {
                self.nodes.select_nth_unstable(room);
                self.nodes.truncate(room);
            }
            self.nodes.sort_unstable();
            self.last = room.checked_sub(1).and_then(|last| self.nodes.get(last)).copied();
            self.sorted = true;
        }
    }

    /// The most nodes that may be sent.
    fn room(&self) -> usize {
        self.prices.len().saturating_sub(1)
    }

    fn price(&self, nodes: usize) -> f64 {
        self.prices.get(nodes).copied().unwrap_or(f64::INFINITY)
    }

    fn level_price(&self, width: usize) -> f64 {
        self.levels.get(width).copied().unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Curve;

    /// A round at a pace of one token a millisecond, with nodes of these chances.
    fn value(level: Curve, verification: Curve, chances: &[f64]) -> TreeValue {
        let limits = Limits { max_nodes: 4, max_depth: 8 };
        let mut value = TreeValue::default();
        let costs = Costs::new(level, verification);
        value.begin(&RoundPrices { costs, pace: 1.0, limits, widest: 4 });
        chances.iter().zip(1..).for_each(|(&chance, id)| value.offer(Ranked::new(chance, id)));
        value
    }

    /// Nodes of these chances.
    fn frontier(chances: &[f64]) -> Vec<Ranked> {
        chances.iter().map(|&chance| Ranked::new(chance, 1)).collect()
    }

    #[test]
    fn nodes_are_sent_while_their_chance_pays_for_verifying_them() {
        let chances = [0.1, 0.9, 0.3, 0.5];
        let sent = |per_node| value(Curve::line(0.1, 0.0), Curve::line(1.0, per_node), &chances).best();
        assert_eq!(sent(0.0), [2, 4, 3, 1]);
        assert_eq!(sent(0.4), [2, 4]);
        assert_eq!(sent(1.0), []);
    }

    #[test]
    fn the_flat_part_of_a_cost_is_used_up() {
        let mut value = value(Curve::line(0.1, 0.0), Curve::knee(1.0, 0.6, 3), &[0.5, 0.4, 0.3, 0.2]);
        assert_eq!(value.best(), [1, 2, 3]);
    }

    #[test]
    fn no_more_are_sent_than_allowed() {
        assert_eq!(value(Curve::line(0.1, 0.0), Curve::line(1.0, 0.0), &[0.5; 9]).best(), [1, 2, 3, 4]);
    }

    #[test]
    fn as_many_nodes_are_run_as_pay_for_it() {
        let level = |per_node| value(Curve::line(0.2, per_node), Curve::line(1.0, 0.0), &[]);
        assert_eq!(level(0.0).level(&frontier(&[0.5, 0.2, 0.1]), &Following::one(1.0)), 3);
        assert_eq!(level(0.15).level(&frontier(&[0.5, 0.2, 0.1]), &Following::one(1.0)), 2);
        assert_eq!(level(0.6).level(&frontier(&[0.5, 0.2, 0.1]), &Following::one(1.0)), 0);
    }

    #[test]
    fn levels_that_pay_only_together_are_drafted() {
        // Sending anything costs a token; each level brings 0.9 at first and costs 0.3.
        let first_is_dear = Curve::through([(0, 1.0), (1, 2.0), (4, 2.0)]).unwrap_or(Curve::line(1.0, 0.0));
        let pays = |limit, ms| {
            let mut value = value(Curve::line(ms, 0.0), first_is_dear, &[]);
            value.levels_left = limit;
            assert_eq!(value.level(&frontier(&[1.0]), &Following::one(0.9)), 0);
            value.chain([0.9, 0.81, 0.73].into_iter())
        };
        assert_eq!((pays(8, 0.3), pays(1, 0.3), pays(8, 0.8)), (true, false, false));
    }

    #[test]
    fn in_a_full_tree_a_child_must_beat_the_node_it_replaces() {
        let full = |chance| value(Curve::line(0.2, 0.0), Curve::line(1.0, 0.0), &[chance; 4]);
        assert_eq!(full(0.3).level(&frontier(&[0.9]), &Following::one(1.0)), 1);
        assert_eq!(full(0.8).level(&frontier(&[0.9]), &Following::one(1.0)), 0);
    }

    #[test]
    fn a_round_takes_its_levels_and_its_verification() {
        let mut value = value(Curve::line(0.5, 0.0), Curve::line(2.0, 0.5), &[]);
        value.spend(1);
        assert_eq!(value.ms(2), 3.5);
    }
}
