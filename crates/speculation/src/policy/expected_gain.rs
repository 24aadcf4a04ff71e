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
//! of its depth lately held. Where rounds with a draft lately made less of their time than plain
//! decoding does, nothing is drafted, but for a probe now and then.

mod acceptance;
mod followers;
mod pace;
mod probing;
mod ranked;
mod worth;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::param::Param;
use super::registry::{Kind, WIDTH_MAX, general_depth, max_nodes};
use super::{Experience, Policy, RoundStart};
use crate::draft::Draft;
use crate::{Costs, RoundRecord};
use acceptance::{Acceptance, Child};
use followers::{Expected, Followers};
use pace::Pace;
use probing::Probing;
use ranked::Ranked;
use worth::Worth;

const BEAM: Param = Param::count("beam", 16, (1, WIDTH_MAX), "most nodes expanded a level");
const WIDTH: Param = Param::count("width", 5, (1, WIDTH_MAX), "children of a node");
const RATIO: Param = Param::real(
    "ratio",
    0.1,
    (0.0, 1e6),
    "time of a draft level, in verifications, to reckon with; auto is what is measured, node by node",
)
.auto();
const PROBE: Param =
    Param::real("probe", 0.01, (0.0001, 1.0), "share of the time that drafts may cost which are only tried");

pub(super) const KIND: Kind = Kind {
    name: "expected-gain",
    about: "the tree of most tokens a second by measured costs and acceptance, or none",
    params: &[BEAM, WIDTH, PROBE, RATIO, max_nodes(64), general_depth()],
    build: |values| {
        Box::new(ExpectedGain {
            beam: values.count(&BEAM),
            width: values.count(&WIDTH),
            known: Shared::new(values.real(&PROBE)),
            idle: 0,
            probes_next: false,
            fixed_ratio: values.measurable(&RATIO),
            round: Round::default(),
        })
    },
};

/// Rounds of plain decoding in which it is measured, before the first draft.
const PLAIN_ROUNDS: usize = 16;

/// What drafts must make of a round of plain decoding, in tokens; and where several sequences share the target: what a draft
/// costs the others its own time does not tell.
const ENOUGH: f64 = 1.0;
const ENOUGH_BESIDE_OTHERS: f64 = 1.05;

/// How many times as much they must make after they made less.
const AGAIN: f64 = 1.05;

/// Fewer sequences than this, on average, are one at a time: where one follows another both are open for a moment.
const ALONE: f64 = std::f64::consts::SQRT_2;

/// Plain rounds are compared where there are less than so many times as many sequences.
const SAME_LOAD: f64 = 1.2;

/// With so many times as many sequences, or as few, drafts may make something else altogether.
const OTHER_LOAD: f64 = 2.0;

/// How many times what was reckoned with a round may count, and what part of it: the machine hiccups now and then.
const HICCUP: f64 = 3.0;

/// How likely the nodes of a probe are at the least.
const PROBE_CHANCE: f64 = 0.3;

struct ExpectedGain {
    beam: usize,
    width: usize,
    known: Shared,
    /// Rounds in a row without a draft.
    idle: usize,
    /// Whether the probe that was due is this sequence's to make, as soon as its rest has ended. If it is over before that, the
    /// next probe is due as after one that was made.
    probes_next: bool,
    fixed_ratio: Option<f64>,
    round: Round,
}

/// What is known of drafter and target together. Sequences of the same circumstances share it: what one learns all know.
#[derive(Clone)]
struct Shared(Arc<Mutex<Known>>);

impl Shared {
    /// Nothing yet; probes may cost this share of the time.
    fn new(probe_share: f64) -> Self {
        Self(Arc::new(Mutex::new(Known::new(probe_share))))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Whoever panicked left sums that hold still.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Known {
    acceptance: Acceptance,
    followers: Followers,
    /// Of all rounds, and of those with a draft.
    pace: Pace,
    drafted: Pace,
    probing: Probing,
    /// About how many sequences there were when drafts made what `drafted` says.
    sequences: f64,
    /// By what it was found that drafts do not pay, if that was the last finding.
    gave_up: Option<Load>,
}

/// What drafts are held against.
#[derive(Clone, Copy)]
struct Load {
    /// A round of plain decoding, in milliseconds, and how many sequences there were.
    plain_ms: f64,
    sequences: f64,
}

impl Load {
    /// How many times as long plain rounds really took, by what was measured while nobody drafts, if the load is the same.
    fn error(self, now: Self) -> f64 {
        if apart(now.sequences, self.sequences) < SAME_LOAD {
            now.plain_ms / self.plain_ms.max(f64::MIN_POSITIVE)
        } else {
            1.0
        }
    }
}

/// How many times the lesser number of sequences the greater one is.
fn apart(a: f64, b: f64) -> f64 {
    a.max(b) / a.min(b).max(1.0)
}

impl Known {
    /// Nothing yet; probes may cost this share of the time.
    fn new(probe_share: f64) -> Self {
        Self {
            acceptance: Acceptance::default(),
            followers: Followers::default(),
            pace: Pace::of_plain_decoding(),
            drafted: Pace::of_drafts(),
            probing: Probing::new(probe_share),
            sequences: 1.0,
            gave_up: None,
        }
    }

    /// Forgets what drafts made for another number of sequences. Beside more of them drafts make less, so one sequence tries
    /// for all; beside fewer they are worth hoping for.
    fn meet_other_load(&mut self, now: Load, enough: f64) {
        let more = now.sequences > self.sequences;
        self.sequences = now.sequences;
        self.gave_up = more.then_some(now);
        match more {
            true => self.drafted.doubt(enough),
            false => self.drafted.hope(),
        }
        self.probing.fall_due();
    }

    /// Whether rounds with a draft lately made more of their time than plain decoding; clearly more, once they did not. Where
    /// some sequences draft and others do not, passes are less full than if all did the same, so that may not come and go.
    ///
    /// While drafts are made plain rounds are not measured, and may have been taken for faster than they are. After giving
    /// up they are measured, and what drafts made counts by that.
    fn drafts_pay(&mut self, now: Load) -> bool {
        let enough = if now.sequences < ALONE { ENOUGH } else { ENOUGH_BESIDE_OTHERS };
        if apart(now.sequences, self.sequences) >= OTHER_LOAD {
            self.meet_other_load(now, enough);
        }
        let Some(before) = self.gave_up else {
            self.gave_up = (self.drafted.per_step() < enough).then_some(now);
            return self.gave_up.is_none();
        };
        let error = before.error(now);
        let pay = self.drafted.per_step() * error >= enough * AGAIN;
        if pay {
            self.drafted.correct(error);
            self.gave_up = None;
        }
        pay
    }
}

/// What is known of the round under way.
#[derive(Default)]
struct Round {
    worth: Worth,
    /// What is expected below each depth, from when it was first asked for.
    expected: Expected,
    /// Each draft node, by its number less one.
    nodes: Vec<Estimate>,
    /// Sequences that the target serves at once.
    sequences: f64,
    /// A round of plain decoding, in milliseconds; and in such rounds this round and the reading before it, where they were
    /// measured.
    plain_ms: f64,
    took: Option<(f64, f64)>,
    /// Whether plain decoding was measured, which drafts are held against.
    plain_is_known: bool,
    /// Whether it is drafted although no draft is expected to pay.
    probe: bool,
    /// Nodes sent.
    sent: usize,
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
    /// How long the round took, and the reading before it, in rounds of plain decoding. What was measured goes before what
    /// was reckoned with: it knows of all that the drafter waited for, and of nothing that was drafted ahead.
    fn relative_time(&self) -> (f64, f64) {
        let (steps, read) = self.worth.relative_time(self.sent);
        match self.took {
            Some((took, read)) => (took.clamp(steps / HICCUP, steps * HICCUP), read),
            None => (steps, read),
        }
    }

    /// How long a probe of so many `steps` says that drafts take. One among sequences that rest shares a small pass: beside
    /// others it is held to take as long as if all sent such a tree.
    fn probe_time(&self, steps: f64) -> f64 {
        let alone = self.sequences < ALONE;
        if alone { steps } else { steps.max(self.worth.relative_time(self.sent).0) }
    }

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
            self.round.worth.offer(Ranked::new(chance, id));
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
            return self.root_if_drafts_pay(draft);
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
        let mut count = self.round.worth.level(&frontier, following);
        drop(known);
        if count == 0 && self.chain_pays(draft.levels(), &frontier) {
            count = 1;
        }
        frontier.truncate(count);
        frontier.into_iter().map(Ranked::id).collect()
    }

    /// The root, where rounds with a draft lately made more of their time than plain decoding does. Before the first level
    /// nothing else is known of this round, and what drafts made tells also what it is worth to stop at the right level.
    fn root_if_drafts_pay(&mut self, draft: &Draft) -> Vec<usize> {
        let now = Load { plain_ms: self.round.plain_ms, sequences: self.round.sequences };
        if !self.round.plain_is_known || !self.known.lock().drafts_pay(now) {
            return Vec::new();
        }
        self.round.worth.spend(1);
        draft.expandable().collect()
    }

    /// The node that a probe runs next: it follows the likeliest path, as one level says nothing of those below it.
    fn probed(&mut self, draft: &Draft) -> Option<usize> {
        if !self.round.probe || !self.round.worth.is_cheap() {
            return None;
        }
        let likely = draft.expandable().filter(|&id| self.round.chance(id) >= PROBE_CHANCE);
        let node = likely.max_by(|&a, &b| self.round.chance(a).total_cmp(&self.round.chance(b)).then(b.cmp(&a)))?;
        self.round.worth.spend(1);
        Some(node)
    }

    /// Whether going on from the likeliest node alone pays in the end.
    fn chain_pays(&mut self, depth: usize, frontier: &[Ranked]) -> bool {
        let Some(likeliest) = frontier.first() else { return false };
        let known = self.known.lock();
        let (Known { followers, acceptance, .. }, Round { worth, expected, .. }) = (&*known, &mut self.round);
        let steps = (depth..).map(|depth| expected.below(depth, followers, acceptance).likeliest);
        worth.chain(steps.scan(likeliest.chance(), |chance, step| {
            *chance *= step;
            Some(*chance)
        }))
    }

    /// Whether this round is to try a draft that is not expected to pay.
    fn begin_probe(&mut self) -> bool {
        let is_mine = std::mem::take(&mut self.probes_next);
        self.round.plain_is_known && (is_mine || self.known.lock().probing.begin_if_due())
    }

    /// What a round costs, as measured or as it was given.
    fn costs(&self, measured: &Costs) -> Costs {
        self.fixed_ratio.map_or(*measured, Costs::of_ratio)
    }

    /// A round went by without a draft.
    fn committed_plainly(&mut self, tokens: usize) {
        self.idle += 1;
        let mut known = self.known.lock();
        known.pace.add(tokens, 1.0);
        known.probing.idle(self.round.sequences);
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
        // Where nothing was drafted, the drafter has yet to read what was committed.
        self.round.worth.begin(&RoundStart { costs, ..*start }, pace, (self.beam, self.idle));
        self.round.expected.clear();
        self.round.nodes.clear();
        self.round.sequences = costs.sequences;
        self.round.plain_ms = costs.plain_or_empty_tree_ms();
        self.round.took = None;
        self.round.plain_is_known = costs.plain_ms.is_some();
        self.round.probe = false;
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
        if !frontier.is_empty() {
            return frontier;
        }
        self.round.probe |= draft.levels() == 0 && self.begin_probe();
        self.probed(draft).into_iter().collect()
    }

    fn keep(&mut self, draft: &Draft) -> Vec<usize> {
        self.read_level(draft);
        self.learn_followers();
        let least = if self.round.probe { draft.levels() } else { 0 };
        let kept = self.round.worth.best(least);
        for &id in &kept {
            self.round.nodes[id - 1].sent = true;
        }
        self.round.sent = kept.len();
        kept
    }

    fn took(&mut self, time: Duration, reading: Duration) {
        let plain = |time: Duration| time.as_secs_f64() * 1e3 / self.round.plain_ms.max(f64::MIN_POSITIVE);
        self.round.took = Some((plain(time), plain(reading)));
    }

    fn observe(&mut self, round: &RoundRecord, path: &[usize]) {
        if round.drafted == 0 {
            return self.committed_plainly(round.committed);
        }
        self.idle = 0;
        let (steps, read) = self.round.relative_time();
        let mut known = self.known.lock();
        known.pace.add(round.committed, steps + read);
        // What a probe reads was missed since long ago; else it is what drafts cost where texts are short.
        let drafting = if self.round.probe { self.round.probe_time(steps) } else { steps + read };
        known.drafted.add(round.committed, drafting);
        // What it took it may have taken from all, and its tokens are those of one.
        let lost = steps + read - 1.0 - (round.committed as f64 - 1.0) / self.round.sequences.max(1.0);
        known.probing.drafted(if self.round.probe { lost } else { 0.0 });
        known.followers.fade();
        self.learn(&mut known, path, round.committed > path.len());
    }

    fn abandon(&mut self) {
        if std::mem::take(&mut self.round.probe) {
            self.known.lock().probing.fall_due();
        }
    }

    fn learns_alone(&self) -> bool {
        self.fixed_ratio.is_some()
    }

    fn rest(&self) -> usize {
        if self.round.plain_is_known { self.known.lock().probing.rest() } else { PLAIN_ROUNDS }
    }

    fn rest_on(&mut self, costs: &Costs) -> usize {
        let costs = self.costs(costs);
        let Some(plain_ms) = costs.plain_ms else { return PLAIN_ROUNDS };
        let mut known = self.known.lock();
        let drafts = known.drafts_pay(Load { plain_ms, sequences: costs.sequences });
        self.probes_next |= !drafts && known.probing.begin_if_due();
        if drafts || self.probes_next { 0 } else { known.probing.rest().max(1) }
    }

    fn rested(&mut self) {
        self.committed_plainly(1);
    }

    fn experience(&self) -> Option<Experience> {
        // Who gave the ratio wants a run that depends on nothing that was before it or is beside it.
        self.fixed_ratio.is_none().then(|| Experience::new(self.known.clone()))
    }

    fn build_on(&mut self, experience: &Experience) {
        if let (None, Some(known)) = (self.fixed_ratio, experience.get::<Shared>()) {
            self.known = known.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::{LIMITS, draft, grower, start};
    use crate::{Curve, Grower, Proposal};

    /// A round at these costs with a drafter that gives every node the same children.
    fn round(grower: &mut Grower, costs: Costs, probs: &[f64]) -> Proposal {
        draft(grower, &RoundStart { costs, ..start(LIMITS) }, |_| probs.to_vec())
    }

    /// Rounds of which the target accepts the first `accepted` nodes of the likeliest path.
    fn rounds(grower: &mut Grower, costs: Costs, probs: &[f64], accepted: usize, count: usize) -> Vec<Proposal> {
        let one = |_| {
            let proposal = round(grower, costs, probs);
            let mut path = Vec::new();
            while let Some(next) = proposal.tree.child_with(path.last().copied().unwrap_or(0), 0)
                && path.len() < accepted
            {
                path.push(next);
            }
            grower.observe(&path, path.len() + 1);
            proposal
        };
        (0..count).map(one).collect()
    }

    fn costs(level_ms: f64, verification: Curve) -> Costs {
        Costs::new(Curve::line(level_ms, 0.0), verification)
    }

    #[test]
    fn the_dearer_verification_is_the_fewer_nodes_are_sent() {
        let nodes = |per_node| {
            let costs = costs(1.0, Curve::line(10.0, per_node));
            rounds(&mut grower("expected-gain", &[]), costs, &[0.6, 0.2, 0.1], 2, 40)[39].tree.len()
        };
        let (free, cheap, dear) = (nodes(0.0), nodes(0.1), nodes(30.0));
        assert!(free > cheap && cheap > dear, "{free} {cheap} {dear}");
    }

    #[test]
    fn sequences_share_what_they_learn() {
        let costs = costs(1.0, Curve::line(10.0, 0.1));
        let learn = |policy, accepted| {
            let mut first = grower(policy, &[]);
            rounds(&mut first, costs, &[0.6, 0.2, 0.1], accepted, 40);
            first.experience()
        };
        let size_after = |experience: Option<Experience>| {
            let mut next = grower("expected-gain", &[]);
            experience.iter().for_each(|experience| next.build_on(experience));
            round(&mut next, costs, &[0.6, 0.2, 0.1]).tree.len()
        };
        assert!(size_after(learn("expected-gain", 0)) < size_after(None));
        assert!(learn("expected-gain,ratio=0.1", 0).is_none() && learn("svip", 0).is_none());

        let [mut one, mut other] = [(), ()].map(|()| grower("expected-gain", &[]));
        one.experience().iter().for_each(|experience| other.build_on(experience));
        rounds(&mut one, costs, &[0.6, 0.2, 0.1], 0, 40);
        assert!(round(&mut other, costs, &[0.6, 0.2, 0.1]).tree.len() < size_after(None));
    }

    #[test]
    fn the_farther_the_verifier_the_deeper_the_tree() {
        let depth = |way_ms| {
            let costs = costs(1.0, Curve::line(way_ms, 0.2));
            round(&mut grower("expected-gain", &[]), costs, &[0.6]).tree.depth()
        };
        assert!(depth(100.0) > depth(4.0));
    }

    #[test]
    fn where_drafting_costs_more_than_verifying_it_is_hardly_tried() {
        let costs = costs(11.0, Curve::line(10.0, 0.1));
        let rounds = rounds(&mut grower("expected-gain", &[]), costs, &[0.9, 0.1], 1, 300);
        let drafted = rounds.iter().filter(|round| round.drafted > 0).count();
        assert!((1..90).contains(&drafted), "{drafted}");
    }

    #[test]
    fn a_hopeless_drafter_is_given_up_and_noticed_when_it_recovers() {
        let (mut grower, costs) = (grower("expected-gain", &[]), costs(1.0, Curve::line(5.0, 0.3)));
        let drafted = |rounds: &[Proposal]| rounds.iter().filter(|round| !round.tree.is_empty()).count();
        rounds(&mut grower, costs, &[0.8, 0.1], 0, 100);
        let tried = drafted(&rounds(&mut grower, costs, &[0.8, 0.1], 0, 300));
        assert!((1..=25).contains(&tried), "{tried}");
        rounds(&mut grower, costs, &[0.8, 0.1], 9, 200);
        assert!(drafted(&rounds(&mut grower, costs, &[0.8, 0.1], 9, 100)) == 100);
    }

    #[test]
    fn who_gave_up_because_plain_rounds_seemed_faster_than_they_are_soon_drafts_again() {
        let (mut grower, true_costs) = (grower("expected-gain", &[]), costs(1.0, Curve::line(5.0, 0.3)));
        let seeming = Costs { plain_ms: Some(1.5), ..true_costs };
        rounds(&mut grower, true_costs, &[0.8, 0.1], 9, 60);
        let given_up = rounds(&mut grower, seeming, &[0.8, 0.1], 9, 100);
        assert!(given_up[99].tree.is_empty());
        assert!(rounds(&mut grower, true_costs, &[0.8, 0.1], 9, 20).iter().all(|round| !round.tree.is_empty()));
    }

    #[test]
    fn what_drafts_made_for_one_sequence_counts_little_for_many() {
        let costs_of = |sequences, per_node| Costs { sequences, ..costs(1.0, Curve::line(5.0, per_node)) };
        let drafted_beside_others = |sequences| {
            let mut grower = grower("expected-gain", &[]);
            rounds(&mut grower, costs_of(1.0, 0.3), &[0.8, 0.1], 9, 200);
            let later = rounds(&mut grower, costs_of(sequences, 3.0), &[0.8, 0.1], 0, 60);
            later.iter().filter(|round| !round.tree.is_empty()).count()
        };
        let (same, other) = (drafted_beside_others(1.0), drafted_beside_others(16.0));
        assert!(8 * other < same, "{other} of {same}");
    }

    #[test]
    fn a_rest_goes_on_until_a_probe_is_due_which_one_sequence_makes() {
        let costs = costs(1.0, Curve::line(5.0, 3.0));
        let mut first = grower("expected-gain", &[]);
        rounds(&mut first, costs, &[0.8, 0.1], 0, 100);
        let mut second = grower("expected-gain", &[]);
        second.build_on(&first.experience().unwrap());
        let unknown = Costs { plain_ms: None, ..costs };
        assert_eq!(first.rest_on(&unknown), PLAIN_ROUNDS);
        let mut rested = 0;
        while let more @ 1.. = first.rest_on(&costs) {
            (0..more).for_each(|_| first.rested());
            rested += more;
        }
        assert!(rested >= 8 && first.rest_on(&costs) == 0 && second.rest_on(&costs) > 0, "{rested}");
        assert!(round(&mut second, costs, &[0.8, 0.1]).tree.is_empty());
        assert!(!round(&mut first, costs, &[0.8, 0.1]).tree.is_empty());
    }

    #[test]
    fn a_rest_ends_where_drafts_pay() {
        let mut grower = grower("expected-gain", &[]);
        assert_eq!(grower.rest_on(&costs(1.0, Curve::line(10.0, 0.1))), 0);
    }

    #[test]
    fn beside_more_sequences_one_tries_for_all_and_all_draft_if_that_pays() {
        let costs_of = |sequences| Costs { sequences, ..costs(1.0, Curve::line(5.0, 0.3)) };
        let mut first = grower("expected-gain", &[]);
        rounds(&mut first, costs_of(1.0), &[0.8, 0.1], 9, 200);
        let mut others = [(); 3].map(|()| grower("expected-gain", &[]));
        let experience = first.experience().unwrap();
        others.iter_mut().for_each(|other| other.build_on(&experience));
        // All begin before anything comes back.
        let tried = round(&mut first, costs_of(4.0), &[0.8, 0.1]);
        let resting = others.each_mut().map(|other| round(other, costs_of(4.0), &[0.8, 0.1]));
        assert!(!tried.tree.is_empty() && resting.iter().all(|proposal| proposal.tree.is_empty()));
        first.observe(&[1, 2, 3, 4], 5);
        assert!(others.iter_mut().all(|other| !round(other, costs_of(4.0), &[0.8, 0.1]).tree.is_empty()));
    }

    #[test]
    fn beside_fewer_sequences_it_is_drafted_at_once_whatever_was_beside_many() {
        let costs_of = |sequences, per_node| Costs { sequences, ..costs(1.0, Curve::line(5.0, per_node)) };
        let mut grower = grower("expected-gain", &[]);
        rounds(&mut grower, costs_of(16.0, 3.0), &[0.8, 0.1], 0, 200);
        let alone = rounds(&mut grower, costs_of(1.0, 0.3), &[0.8, 0.1], 9, 20);
        assert!(alone.iter().all(|round| !round.tree.is_empty()));
    }

    #[test]
    fn a_drafter_too_sure_of_itself_gets_shallower_trees() {
        let (mut grower, costs) = (grower("expected-gain", &[]), costs(1.0, Curve::line(10.0, 0.3)));
        let trusting = rounds(&mut grower, costs, &[0.95], 16, 60)[59].tree.depth();
        let wary = rounds(&mut grower, costs, &[0.95], 1, 120)[119].tree.depth();
        assert!(wary <= 3 && trusting > 6, "{trusting} {wary}");
    }

    #[test]
    fn the_same_rounds_give_the_same_trees() {
        let run = || {
            let costs = costs(1.0, Curve::line(4.0, 0.4));
            rounds(&mut grower("expected-gain", &[]), costs, &[0.5, 0.3, 0.1], 1, 80)
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn beam_and_width_are_maxima() {
        let costs = costs(0.01, Curve::line(50.0, 0.0));
        let proposal = round(&mut grower("expected-gain,beam=2,width=3,max_depth=3", &[]), costs, &[0.25; 4]);
        assert_eq!((proposal.widths, proposal.drafted), (vec![1, 2, 2], 3 + 6 + 6));
    }
}
