//! `expected-gain`: the tree that makes the most tokens a second; our own, and the default.
//!
//! A run's speed is all its tokens over all its time, so it is greatest when every round makes
//! the most of `tokens - pace * time`, `pace` being the tokens a millisecond that the run makes
//! as it goes (Dinkelbach's method). With nodes sorted by falling chance of acceptance, `A(n)` the
//! sum of the `n` greatest, and levels of `w_1, w_2, ...` nodes drafted, a round is worth
//!
//! ```text
//! 1 + A(n) - pace * (T_d(w_1) + T_d(w_2) + ... + T_v(n))
//! ```
//!
//! The `n` of greatest worth are sent, and another level is drafted while the worth it can be
//! expected to add, alone or with those below it, pays for it. PCT's ratio and OPT-Tree's budget
//! approximate the same trade; here every term is measured: `T_d` and `T_v` by the cost model, the
//! chance of a node from how often such nodes were accepted, and the next level from what levels
//! of its depth lately held. Whether to draft at all is not asked here: that is the gate's.

mod acceptance;
mod followers;
mod pace;
mod ranked;
mod tree_value;

use std::sync::Arc;

use parking_lot::Mutex;

use super::kind::{Kind, WIDTH_MAX, general_depth, max_nodes};
use super::param::Param;
use super::{Experience, Policy, RoundStart};
use crate::draft::Draft;
use crate::{Costs, RoundRecord};
use acceptance::{Acceptance, Child};
use followers::{Expected, Followers};
use pace::Pace;
use ranked::Ranked;
use tree_value::{RoundPrices, TreeValue};

const BEAM: Param = Param::count("beam", 16, (1, WIDTH_MAX), "most nodes expanded a level");
const WIDTH: Param = Param::count("width", 5, (1, WIDTH_MAX), "children of a node");
const RATIO: Param = Param::real(
    "ratio",
    0.1,
    (0.0, 1e6),
    "time of a draft level, in verifications, to reckon with; auto is what is measured, node by node",
)
.auto();

pub(super) const KIND: Kind = Kind {
    name: "expected-gain",
    about: "the tree of most tokens a second by measured costs and acceptance",
    params: &[BEAM, WIDTH, RATIO, max_nodes(64), general_depth()],
    build: |values| {
        Box::new(ExpectedGain {
            beam: values.count(&BEAM),
            width: values.count(&WIDTH),
            known: Shared::default(),
            fixed_ratio: values.measurable(&RATIO),
            round: Round::default(),
        })
    },
};

struct ExpectedGain {
    beam: usize,
    width: usize,
    known: Shared,
    fixed_ratio: Option<f64>,
    round: Round,
}

/// What is known of drafter and target together. Sequences of the same circumstances share it: what one learns all know.
type Shared = Arc<Mutex<Known>>;

#[derive(Default)]
struct Known {
    acceptance: Acceptance,
    followers: Followers,
    pace: Pace,
}

/// What is known of the round under way.
#[derive(Default)]
struct Round {
    value: TreeValue,
    /// What is expected below each depth, from when it was first asked for.
    expected: Expected,
    /// Each draft node, by its number less one.
    nodes: Vec<Estimate>,
    /// How long it takes if what is kept is sent, in milliseconds.
    ms: f64,
}

/// What is expected of a draft node.
#[derive(Clone, Copy)]
struct Estimate {
    parent: usize,
    depth: usize,
    child: Child,
    /// Chance that it is accepted, its path included.
    chance: f64,
    sent: bool,
}

impl Round {
    /// The chance that node `id` is accepted; 1 for the root.
    fn chance(&self, id: usize) -> f64 {
        id.checked_sub(1).and_then(|index| self.nodes.get(index)).map_or(1.0, |node| node.chance)
    }
}

impl ExpectedGain {
    /// Estimates the nodes of the newest level.
    fn read_level(&mut self, draft: &Draft) {
        let known = self.known.lock();
        let (mut parent, mut above) = (usize::MAX, 1.0);
        for id in self.round.nodes.len() + 1..=draft.len() {
            let Some(node) = draft.node(id) else { break };
            let first = std::mem::replace(&mut parent, node.parent) != node.parent;
            if first {
                above = self.round.chance(parent);
            }
            let child = Child::new(node.prob, first);
            let chance = above * known.acceptance.chance(node.depth - 1, child);
            self.round.nodes.push(Estimate { parent: node.parent, depth: node.depth, child, chance, sent: false });
            self.round.value.offer(Ranked::new(chance, id));
        }
    }

    /// Learns what follows the nodes of this round that were run.
    fn learn_followers(&self) {
        let followers = &mut self.known.lock().followers;
        for &Estimate { parent, depth, child, .. } in &self.round.nodes {
            let above = self.round.chance(parent);
            if child.first {
                followers.expanded(depth - 1, above);
            }
            followers.followed(depth - 1, above, child);
        }
    }

    /// The nodes worth running next, the likeliest first.
    fn worth_running(&mut self, draft: &Draft) -> Vec<usize> {
        if draft.levels() == 0 {
            self.round.value.spend(1);
            return draft.expandable().collect();
        }
        let mut frontier: Vec<Ranked> = draft.expandable().map(|id| Ranked::new(self.round.chance(id), id)).collect();
        if frontier.len() > self.beam {
            frontier.select_nth_unstable(self.beam);
            frontier.truncate(self.beam);
        }
        frontier.sort_unstable();
        let known = self.known.lock();
        let Known { followers, acceptance, .. } = &*known;
        let following = self.round.expected.below(draft.levels(), followers, acceptance);
        let mut count = self.round.value.level(&frontier, following);
        drop(known);
        if count == 0 && self.chain_pays(draft.levels(), &frontier) {
            count = 1;
        }
        frontier.truncate(count);
        frontier.into_iter().map(Ranked::id).collect()
    }

    /// Whether going on from the likeliest node alone pays in the end.
    fn chain_pays(&mut self, depth: usize, frontier: &[Ranked]) -> bool {
        let Some(likeliest) = frontier.first() else { return false };
        let known = self.known.lock();
        let (Known { followers, acceptance, .. }, Round { value, expected, .. }) = (&*known, &mut self.round);
        let steps = (depth..).map(|depth| expected.below(depth, followers, acceptance).likeliest);
        value.chain(steps.scan(likeliest.chance(), |chance, step| {
            *chance *= step;
            Some(*chance)
        }))
    }

    /// What a round costs, as measured or as it was given.
    fn costs(&self, measured: &Costs) -> Costs {
        self.fixed_ratio.map_or(*measured, Costs::of_ratio)
    }

    /// Learns from each node that the target decided on: those whose parent was accepted.
    fn learn(&self, known: &mut Known, path: &[usize], whole: bool) {
        let last = path.last().copied().unwrap_or(0);
        for (id, node) in (1..).zip(&self.round.nodes).filter(|(_, node)| node.sent) {
            let reached = node.parent == 0 || path.contains(&node.parent);
            if reached && (whole || node.parent != last) {
                known.acceptance.observe(node.depth - 1, node.child, path.contains(&id));
            }
        }
    }
}

impl Policy for ExpectedGain {
    fn begin(&mut self, start: &RoundStart) {
        let costs = self.costs(&start.costs);
        let pace = self.known.lock().pace.tokens_per_ms(&costs);
        self.round.value.begin(&RoundPrices { costs, pace, limits: start.limits, widest: self.beam });
        self.round.expected.clear();
        self.round.nodes.clear();
    }

    fn width(&self) -> usize {
        self.width
    }

    fn trims(&self) -> bool {
        false
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        self.read_level(draft);
        self.worth_running(draft)
    }

    fn keep(&mut self, draft: &Draft) -> Vec<usize> {
        self.read_level(draft);
        self.learn_followers();
        let kept = self.round.value.best();
        for &id in &kept {
            self.round.nodes[id - 1].sent = true;
        }
        self.round.ms = self.round.value.ms(kept.len());
        kept
    }

    fn observe(&mut self, round: &RoundRecord, path: &[usize]) {
        let mut known = self.known.lock();
        known.pace.add(round.committed, self.round.ms);
        known.followers.fade();
        self.learn(&mut known, path, round.committed > path.len());
    }

    fn experience(&self) -> Option<Experience> {
        // Who gave the ratio wants a run that depends on nothing that was before it or is beside it.
        self.fixed_ratio.is_none().then(|| Experience::new(self.known.clone()))
    }

    fn build_on(&mut self, experience: &Experience) {
        if let (None, Some(known)) = (self.fixed_ratio, experience.get::<Shared>()) {
            self.known = Arc::clone(known);
        }
    }
}

#[cfg(test)]
mod tests;
