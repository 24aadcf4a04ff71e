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
//! expected to add pays for it. PCT's ratio and OPT-Tree's budget approximate the same trade; here
//! every term is measured: `T_d` and `T_v` by the cost model, the chance of a node from how often
//! such nodes were accepted, and the next level from what levels of its depth lately held. Where
//! no tree pays, none is drafted, but for a probe now and then.

mod acceptance;
mod followers;
mod pace;
mod probing;
mod worth;

use super::param::Param;
use super::registry::{Kind, WIDTH_MAX, general_depth, max_nodes};
use super::{Policy, RoundStart};
use crate::RoundRecord;
use crate::draft::Draft;
use acceptance::Acceptance;
use followers::Followers;
use pace::Pace;
use probing::Probing;
use worth::Worth;

const BEAM: Param = Param::count("beam", 16, (1, WIDTH_MAX), "most nodes expanded a level");
const WIDTH: Param = Param::count("width", 5, (1, WIDTH_MAX), "children of a node");
const PROBE: Param = Param::count("probe", 64, (1, 4096), "most rounds without a draft before one is tried");

pub(super) const KIND: Kind = Kind {
    name: "expected-gain",
    about: "the tree of most tokens a second by measured costs and acceptance, or none",
    params: &[BEAM, WIDTH, PROBE, max_nodes(64), general_depth()],
    build: |values| {
        Box::new(ExpectedGain {
            beam: values.count(&BEAM),
            width: values.count(&WIDTH),
            acceptance: Acceptance::default(),
            followers: Followers::default(),
            pace: Pace::default(),
            probing: Probing::new(values.count(&PROBE)),
            round: Round::default(),
        })
    },
};

struct ExpectedGain {
    beam: usize,
    width: usize,
    acceptance: Acceptance,
    followers: Followers,
    pace: Pace,
    probing: Probing,
    round: Round,
}

/// What is known of the round under way.
#[derive(Default)]
struct Round {
    worth: Worth,
    /// Each draft node, by its number less one.
    nodes: Vec<Estimate>,
    /// Whether it is drafted although no draft is expected to pay.
    probe: bool,
    /// Nodes sent.
    sent: usize,
}

/// What is expected of a draft node.
#[derive(Clone, Copy)]
struct Estimate {
    parent: usize,
    prob: f64,
    /// Whether it is its parent's most probable child.
    first: bool,
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
    /// Estimates the nodes of the newest level, and learns what follows those they came from.
    fn read_level(&mut self, draft: &Draft) {
        let known = self.round.nodes.len();
        for id in known + 1..=draft.len() {
            let Some(node) = draft.node(id) else { break };
            let first = self.round.nodes.last().is_none_or(|before| before.parent != node.parent);
            let above = self.round.chance(node.parent);
            let chance = above * self.acceptance.chance(node.prob, first);
            if first {
                self.followers.expanded(node.depth - 1, above);
            }
            self.followers.followed(node.depth - 1, above, (node.prob, first));
            self.round.nodes.push(Estimate { parent: node.parent, prob: node.prob, first, chance, sent: false });
            self.round.worth.offer(chance, id);
        }
    }

    /// The nodes worth running next, the likeliest first.
    fn worth_running(&mut self, draft: &Draft) -> Vec<usize> {
        let mut frontier: Vec<(f64, usize)> = draft.expandable().map(|id| (self.round.chance(id), id)).collect();
        frontier.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        frontier.truncate(self.beam);
        let chances: Vec<f64> = frontier.iter().map(|node| node.0).collect();
        let following = self.followers.at(draft.levels(), &self.acceptance);
        let count = self.round.worth.level(&chances, &following);
        frontier.truncate(count);
        frontier.into_iter().map(|node| node.1).collect()
    }

    /// Learns from each node that the target decided on: those whose parent was accepted.
    fn learn(&mut self, path: &[usize], whole: bool) {
        let last = path.last().copied().unwrap_or(0);
        self.acceptance.fade();
        for (id, node) in (1..).zip(&self.round.nodes).filter(|(_, node)| node.sent) {
            let reached = node.parent == 0 || path.contains(&node.parent);
            if reached && (whole || node.parent != last) {
                self.acceptance.observe(node.prob, node.first, path.contains(&id));
            }
        }
    }
}

impl Policy for ExpectedGain {
    fn begin(&mut self, start: &RoundStart) {
        let pace = self.pace.tokens_per_ms(&start.costs);
        if std::env::var("EGDBG").is_ok() && start.position % 64 == 0 {
            eprintln!("pace {pace:.3} x {:.3} acc {:?}", pace * start.costs.verification.at(0), self.acceptance);
            for d in 0..3 {
                eprintln!(
                    "  d{d} {:?}",
                    self.followers
                        .at(d, &self.acceptance)
                        .iter()
                        .map(|f| format!("{:.2}@{:.2}", f.count, f.chance))
                        .collect::<Vec<_>>()
                );
            }
            eprintln!(
                " lv {:?} ver {:?}",
                start.costs.level.points().iter().take(6).collect::<Vec<_>>(),
                start.costs.verification.points().iter().take(6).collect::<Vec<_>>()
            );
        }
        self.round.worth.begin(start, pace);
        self.round.nodes.clear();
        self.round.probe = false;
        self.followers.settle();
    }

    fn width(&self) -> usize {
        self.width
    }

    fn trims(&self) -> bool {
        false
    }

    fn expand(&mut self, draft: &Draft) -> Vec<usize> {
        self.read_level(draft);
        let frontier = self.worth_running(draft);
        if frontier.is_empty() && draft.levels() == 0 && self.probing.due() {
            self.round.probe = true;
            self.round.worth.spend(1);
            return vec![0];
        }
        frontier
    }

    fn keep(&mut self, draft: &Draft) -> Vec<usize> {
        self.read_level(draft);
        let least = usize::from(self.round.probe);
        let kept = self.round.worth.best(least);
        for &id in &kept {
            self.round.nodes[id - 1].sent = true;
        }
        self.round.sent = kept.len();
        kept
    }

    fn observe(&mut self, round: &RoundRecord, path: &[usize]) {
        self.learn(path, round.committed > path.len());
        self.pace.add(round.committed, self.round.worth.relative_time(self.round.sent));
        self.probing.observe(self.round.probe, round);
    }
}
