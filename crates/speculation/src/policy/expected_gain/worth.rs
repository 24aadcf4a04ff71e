//! What the nodes at hand, and those of a further level, are worth at the present costs.

use super::followers::Follower;
use crate::{Curve, RoundStart};

/// The nodes of a round by falling chance, and what it costs to verify the best of them. All
/// costs are in tokens: milliseconds at the pace of the run.
#[derive(Default)]
pub(super) struct Worth {
    pace: f64,
    level: Option<Curve>,
    /// Price of verifying 0, 1, ... nodes, up to the most that may be sent.
    prices: Vec<f64>,
    /// Chance and number of the nodes that may be worth sending.
    nodes: Vec<(f64, usize)>,
    sorted: bool,
    /// Spent on drafting so far.
    spent: f64,
}

impl Worth {
    /// Starts a round in which a millisecond is worth `pace` tokens.
    pub(super) fn begin(&mut self, start: &RoundStart, pace: f64) {
        self.pace = pace;
        self.level = Some(start.costs.level);
        self.prices.clear();
        self.prices.extend((0..=start.limits.max_nodes).map(|nodes| pace * start.costs.verification.at(nodes)));
        self.nodes.clear();
        self.spent = 0.0;
    }

    /// Takes a drafted node into account.
    pub(super) fn offer(&mut self, chance: f64, id: usize) {
        self.nodes.push((chance, id));
        self.sorted = false;
    }

    /// Pays for a level of `width` nodes.
    pub(super) fn spend(&mut self, width: usize) {
        self.spent += self.level_price(width);
    }

    /// The numbers of the nodes worth sending, `least` of them at least.
    pub(super) fn best(&mut self, least: usize) -> Vec<usize> {
        let count = self.count().max(least).min(self.nodes.len());
        self.nodes[..count].iter().map(|node| node.1).collect()
    }

    /// How long the round takes if `sent` nodes are sent, in plain steps.
    pub(super) fn relative_time(&self, sent: usize) -> f64 {
        let plain = self.price(0).max(f64::MIN_POSITIVE);
        (self.spent + self.price(sent)) / plain
    }

    /// How many nodes of a next level are worth running, and pays for them: those with `chances`
    /// may be, in falling order, each expected to have the children `following`.
    pub(super) fn level(&mut self, chances: &[f64], following: &[Follower]) -> usize {
        let sent = self.count();
        let room = self.prices.len() - 1 - sent.min(self.prices.len() - 1);
        let mut threshold = self.price(sent + 1) - self.price(sent);
        let first = self.gains(chances, following, threshold);
        let count: f64 = first.iter().map(|gain| gain.count).sum();
        let more = (count.round() as usize).clamp(1, room.max(1));
        threshold = (self.price(sent + more) - self.price(sent)) / more as f64;
        let gains = self.gains(chances, following, threshold);
        let (mut best, mut width, mut sum) = (0.0, 0, 0.0);
        for (index, gain) in gains.iter().enumerate() {
            sum += gain.worth;
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

    fn gains(&self, chances: &[f64], following: &[Follower], threshold: f64) -> Vec<Gain> {
        chances.iter().map(|&chance| Gain::of(chance, following, threshold)).collect()
    }

    /// How many of the best nodes are worth sending.
    fn count(&mut self) -> usize {
        self.sort();
        let (mut best, mut count, mut sum) = (-self.price(0), 0, 0.0);
        for (index, node) in self.nodes.iter().enumerate() {
            sum += node.0;
            let worth = sum - self.price(index + 1);
            if worth > best {
                (best, count) = (worth, index + 1);
            }
        }
        count
    }

    fn sort(&mut self) {
        if !self.sorted {
            self.nodes.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            self.nodes.truncate(self.prices.len().saturating_sub(1));
            self.sorted = true;
        }
    }

    fn price(&self, nodes: usize) -> f64 {
        self.prices.get(nodes).copied().unwrap_or(f64::INFINITY)
    }

    fn level_price(&self, width: usize) -> f64 {
        self.level.map_or(0.0, |level| self.pace * level.at(width))
    }
}

/// What running one node may bring.
#[derive(Clone, Copy)]
struct Gain {
    worth: f64,
    count: f64,
}

impl Gain {
    /// Children count where their chance exceeds the price of sending one more.
    fn of(chance: f64, following: &[Follower], threshold: f64) -> Self {
        let mut gain = Self { worth: 0.0, count: 0.0 };
        for follower in following {
            let surplus = chance * follower.chance - threshold;
            if surplus > 0.0 {
                gain.worth += follower.count * surplus;
                gain.count += follower.count;
            }
        }
        gain
    }
}
