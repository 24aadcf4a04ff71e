//! What drafting and verifying cost, learnt from measured durations.
//!
//! No clock is read here: whoever measures passes the durations in, so a test decides them.

mod curve;
mod fit;
mod load;
mod overhead;
mod robust;

use std::time::Duration;

pub use curve::{CURVE_POINTS_MAX, Curve};
use fit::{Fit, NODES_MAX};
pub use load::PassLoad;
use load::RecentLoad;
use overhead::Overhead;
use robust::HICCUP;

/// A snapshot of what a round costs now; all times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// `s_d`: one draft level, as lately used.
    pub level_ms: f64,
    /// `s_t`: one verification round trip, network and queue included, as lately used.
    pub verification_ms: f64,
    /// `T_d(w)`: a draft level of `w` nodes.
    pub level: Curve,
    /// `T_v(n)`: the verification of a tree of `n` nodes, its root not counted, if the other sequences of the pass send as
    /// many.
    pub verification: Curve,
}

impl Default for Costs {
    /// What is assumed before anything is measured: one verification costs ten draft levels, and
    /// sixteen nodes cost twice what one does.
    fn default() -> Self {
        Self::new(Curve::line(1.0, 0.06), Curve::line(10.0, 0.6))
    }
}

impl Costs {
    /// The costs of these curves, lately used for one node.
    pub fn new(level: Curve, verification: Curve) -> Self {
        Self { level_ms: level.at(1), verification_ms: verification.at(1), level, verification }
    }

    /// A verification as assumed before anything is measured, and draft levels of `ratio` times its cost.
    pub fn of_ratio(ratio: f64) -> Self {
        let Self { verification, .. } = Self::default();
        let level = verification.at(1) * ratio;
        Self::new(Curve::line(level, 0.0), verification)
    }

    /// `mu`: the time of one draft level relative to one verification.
    pub fn ratio(&self) -> f64 {
        self.level_ms / self.verification_ms
    }
}

/// What a round takes besides draft levels and the verification's own computing, in milliseconds, until it is measured.
const OVERHEAD_MS: f64 = 0.2;

/// How long a round took, its draft levels left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTime {
    /// All of it: there and back, queues, the handing over between threads.
    pub elapsed: Duration,
    /// Of which the target computed.
    pub compute: Duration,
    /// Of which the tree waited for that.
    pub queue: Duration,
    /// With whom it shared that.
    pub load: PassLoad,
}

impl RoundTime {
    /// A round whose tree waited for nobody and shared its pass with nobody.
    pub fn alone(elapsed: Duration, compute: Duration) -> Self {
        Self { elapsed, compute, queue: Duration::ZERO, load: PassLoad::default() }
    }
}

/// A running fit of [`Costs`] to measured durations; old measurements fade.
///
/// `T_v(n) = way + (1 + waits) compute(trees (n + 1))`: every outcome tells how long its computing took and for how many
/// rows and trees, so they are never confused. A further node costs what the computing says, however far the verifier is
/// and however much that varies; and where trees of other sequences share the pass, it costs what a further node of each
/// does.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use espalier_speculation::{CostModel, RoundTime};
/// let us = Duration::from_micros;
/// let mut model = CostModel::default();
/// model.expect_verification([(1, us(660)), (8, us(1100)), (64, us(7000))]);
/// model.observe_verification(7, RoundTime::alone(us(1400), us(1100))); // seven nodes and the root
/// let costs = model.costs();
/// assert!((costs.verification.at(7) - 1.4).abs() < 0.01);
/// assert!((costs.verification.at(63) - 7.3).abs() < 0.2);
/// ```
#[derive(Debug, Clone)]
pub struct CostModel {
    level: Fit,
    compute: Fit,
    overhead: Overhead,
    load: RecentLoad,
}

impl Default for CostModel {
    fn default() -> Self {
        Self::new(&Costs::default())
    }
}

impl CostModel {
    /// A model that believes the proportions of `prior` until it is measured otherwise.
    pub fn new(prior: &Costs) -> Self {
        let (level, compute) = (Fit::new(&prior.level), Fit::new(&prior.verification));
        Self { level, compute, overhead: Overhead::new(0.0), load: RecentLoad::default() }
    }

    /// Starts over with what the drafter measured by itself: draft levels of so many rows.
    /// Nothing changes if no measurement is positive.
    pub fn expect_levels(&mut self, measured: impl IntoIterator<Item = (usize, Duration)>) {
        if let Some(curve) = Curve::through(measured.into_iter().map(|(rows, took)| (rows, ms(took)))) {
            self.level = Fit::measured(&curve);
        }
    }

    /// Starts over with what the verifier measured by itself: passes of so many rows, the root's
    /// included, without the way there. Nothing changes if no measurement is positive.
    pub fn expect_verification(&mut self, measured: impl IntoIterator<Item = (usize, Duration)>) {
        let points = measured.into_iter().map(|(rows, took)| (rows.saturating_sub(1), ms(took)));
        if let Some(curve) = Curve::through(points) {
            self.compute = Fit::measured(&curve);
            self.overhead = Overhead::new(OVERHEAD_MS);
        }
    }

    /// The draft levels of one round, in any order, took so long over so many nodes.
    ///
    /// Those over equally many nodes count once, by their mean: a hiccup of the machine meets several levels in a row, and
    /// says nothing of the next round's. What is far above the others counts as three times the middle one.
    pub fn observe_levels(&mut self, levels: &mut [(usize, Duration)]) {
        levels.sort_unstable();
        for same in levels.chunk_by(|a, b| a.0 == b.0) {
            let (nodes, middle) = same[(same.len() - 1) / 2];
            if nodes <= NODES_MAX {
                let sum: Duration = same.iter().map(|level| level.1.min(middle.mul_f64(HICCUP))).sum();
                self.level.add(nodes, sum / same.len() as u32);
            }
        }
    }

    /// A round with a tree of `nodes` nodes took this long.
    pub fn observe_verification(&mut self, nodes: usize, took: RoundTime) {
        if nodes <= NODES_MAX {
            let compute = took.compute.min(took.elapsed);
            let queue = took.queue.min(took.elapsed - compute);
            let pass = took.load.or_alone(nodes + 1);
            if pass.rows <= NODES_MAX {
                self.compute.add(pass.rows.saturating_sub(1), compute);
            }
            self.overhead.add(ms(took.elapsed - compute - queue));
            self.load.add(pass, ms(queue) / ms(compute).max(f64::MIN_POSITIVE));
        }
        if nodes == 0 {
            // Nothing was worth drafting, maybe because unlucky levels spoke against it.
            self.level.rest();
        }
    }

    /// The cost of trees by their nodes, if all in a pass send as many.
    fn verification(&self) -> Curve {
        let compute = self.compute.curve();
        let passes = self.load.passes();
        compute.mapped(|nodes| self.overhead.ms() + passes * compute.at(self.load.nodes(nodes)))
    }

    /// The costs as they stand.
    pub fn costs(&self) -> Costs {
        Costs {
            level_ms: self.level.mean_ms(),
            verification_ms: self.overhead.ms() + self.compute.mean_ms(),
            level: self.level.curve(),
            verification: self.verification(),
        }
    }
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// Milliseconds by rows of the shipped `medium` target, and by nodes of a level of `small`.
    const MEDIUM: [(usize, f64); 8] =
        [(1, 0.66), (2, 0.71), (4, 0.83), (8, 1.1), (12, 1.6), (16, 2.1), (32, 3.6), (64, 7.0)];
    const SMALL: [(usize, f64); 4] = [(1, 0.22), (4, 0.36), (8, 0.65), (16, 1.25)];

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    /// Milliseconds with a jitter of 15 % and now and then a hiccup, the same every time.
    fn jittered(exact: f64, position: u64) -> Duration {
        let hiccup = if position % 47 == 23 { 6.0 } else { 1.0 };
        ms(exact * hiccup * (1.0 + 0.12 * (crate::gumbel(1, position, 0) - 0.58)))
    }

    /// The greatest relative error of `found` against `exact` at these sizes.
    fn error(found: &Curve, exact: &Curve, sizes: &[usize]) -> f64 {
        sizes.iter().map(|&nodes| (found.at(nodes) / exact.at(nodes) - 1.0).abs()).fold(0.0, f64::max)
    }

    /// The cost by nodes of rounds with [`MEDIUM`]: another way there, another load.
    fn medium(way_ms: f64, load: f64) -> Curve {
        Curve::through(MEDIUM.map(|(rows, ms)| (rows - 1, way_ms + load * ms))).unwrap()
    }

    /// Rounds of these sizes in turn, whose way and computing jitter.
    fn rounds(model: &mut CostModel, (way_ms, load): (f64, f64), sizes: &[usize], count: usize) {
        let compute = medium(0.0, load);
        for position in 0..count {
            let nodes = sizes[position % sizes.len()];
            let way = jittered(way_ms, 1000 + position as u64).as_secs_f64() * 1e3;
            model.observe_verification(nodes, round(way, jittered(compute.at(nodes), position as u64)));
        }
    }

    /// A round whose way takes `way_ms`.
    fn round(way_ms: f64, compute: Duration) -> RoundTime {
        RoundTime::alone(ms(way_ms) + compute, compute)
    }

    fn seeded() -> CostModel {
        let mut model = CostModel::default();
        model.expect_verification(MEDIUM.map(|(rows, exact)| (rows, ms(exact))));
        model
    }

    #[test]
    fn the_prior_holds_until_something_is_measured() {
        let costs = CostModel::default().costs();
        assert_eq!(costs, Costs::default());
        assert!((costs.ratio() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn costs_can_be_made_up_from_their_ratio() {
        assert!((Costs::of_ratio(0.3).ratio() - 0.3).abs() < 1e-12);
    }

    #[test]
    fn the_first_measurement_replaces_the_prior() {
        let mut model = CostModel::default();
        model.observe_levels(&mut [(1, ms(0.25))]);
        model.observe_verification(1, round(0.0, ms(5.0)));
        let costs = model.costs();
        assert!((costs.level_ms - 0.25).abs() < 1e-9);
        assert!((costs.ratio() - 0.05).abs() < 1e-9);
        // How cost grows with nodes is still believed: in proportion to the prior.
        assert!((costs.verification.at(16) / costs.verification.at(1) - 19.6 / 10.6).abs() < 1e-9);
    }

    #[test]
    fn a_linear_cost_is_recovered() {
        let mut model = CostModel::default();
        for position in 0..400 {
            let nodes = position % 16;
            model.observe_verification(nodes, round(2.0, ms(3.0 + 0.5 * nodes as f64)));
        }
        let found = model.costs().verification;
        assert!(error(&found, &Curve::line(5.0, 0.5), &[1, 4, 8, 15]) < 0.05, "{found:?}");
    }

    #[test]
    fn what_the_verifier_measured_is_believed_from_the_first_round_on() {
        let (expected, found) = (medium(OVERHEAD_MS, 1.0), seeded().costs().verification);
        assert!(error(&found, &expected, &[0, 1, 3, 7, 15, 31, 63]) < 1e-5);
        // One round tells how far away it is, and that the arithmetic is what it was.
        let mut model = seeded();
        model.observe_verification(7, round(5.0, ms(1.1)));
        let found = model.costs().verification;
        assert!(error(&found, &medium(5.0, 1.0), &[1, 7, 15, 63]) < 0.02, "{found:?}");
    }

    #[test]
    fn few_noisy_sizes_tell_of_distance_and_load() {
        for (way, load) in [(0.2, 1.0), (3.0, 1.0), (0.2, 3.0)] {
            let mut model = seeded();
            rounds(&mut model, (way, load), &[2, 3, 5, 6, 8], 150);
            let (found, exact) = (model.costs().verification, medium(way, load));
            assert!(error(&found, &exact, &[2, 3, 5, 6, 8, 15]) < 0.1, "{way} {load}: {found:?}");
        }
    }

    #[test]
    fn how_far_the_verifier_is_says_nothing_of_a_further_node() {
        for way_ms in [0.2, 1.0, 20.0] {
            let mut model = seeded();
            rounds(&mut model, (way_ms, 1.0), &[5], 100);
            let (found, exact) = (model.costs().verification, medium(way_ms, 1.0));
            let further = |curve: &Curve| curve.at(9) - curve.at(4);
            assert!((further(&found) / further(&exact) - 1.0).abs() < 0.2, "{way_ms}: {found:?}");
        }
    }

    #[test]
    fn among_other_trees_a_node_costs_what_one_of_each_of_them_does() {
        let (mut model, exact) = (seeded(), medium(0.0, 1.0));
        (0..200).for_each(|_| crowded(&mut model, 3));
        let found = model.costs().verification;
        for nodes in [0, 1, 3, 7] {
            let expected = 0.2 + 2.0 * exact.at(8 * (nodes + 1) - 1);
            assert!((found.at(nodes) / expected - 1.0).abs() < 0.15, "{nodes}: {} {expected}", found.at(nodes));
        }
    }

    #[test]
    fn when_a_load_goes_the_sizes_that_it_kept_from_being_tried_are_believed_cheaper_too() {
        let mut model = seeded();
        rounds(&mut model, (0.2, 3.5), &[1, 2, 3, 5, 6], 60);
        rounds(&mut model, (0.2, 1.0), &[0, 1], 60);
        let found = model.costs().verification;
        assert!(error(&found, &medium(0.2, 1.0), &[1, 2, 3, 5, 8]) < 0.2, "{found:?}");
    }

    #[test]
    fn a_shape_nobody_expected_is_learnt() {
        let exact = Curve::through(SMALL).unwrap();
        let mut model = CostModel::default();
        for round in 0..390 {
            let nodes = [1, 1, 3, 5, 8, 12, 16][round as usize % 7];
            model.observe_levels(&mut [(nodes, jittered(exact.at(nodes), round))]);
        }
        let found = model.costs().level;
        assert!(error(&found, &exact, &[1, 3, 5, 8, 12, 16]) < 0.2, "{found:?}");
    }

    /// A round of a tree of `nodes` among 16 sequences, half of which have such a tree in each pass.
    fn crowded(model: &mut CostModel, nodes: usize) {
        let (trees, open) = (8, 16);
        let rows = trees * (nodes + 1);
        let compute = ms(medium(0.0, 1.0).at(rows - 1));
        let load = PassLoad { rows, trees, open };
        model.observe_verification(nodes, RoundTime { elapsed: ms(0.2) + 2 * compute, compute, queue: compute, load });
    }

    #[test]
    fn a_prompt_is_no_level() {
        let mut model = CostModel::default();
        model.observe_levels(&mut [(NODES_MAX + 1, ms(99.0))]);
        assert_eq!(model.costs(), Costs::default());
    }

    #[test]
    fn a_lasting_change_is_followed_within_some_rounds() {
        let mut model = CostModel::default();
        (0..50).for_each(|_| model.observe_verification(8, round(0.1, ms(2.0))));
        (0..50).for_each(|_| model.observe_verification(8, round(1.0, ms(20.0))));
        assert!((model.costs().verification_ms - 21.0).abs() < 2.0);
    }

    #[test]
    fn an_unlucky_beginning_is_forgotten_while_nothing_is_drafted() {
        let mut model = seeded();
        model.expect_levels(SMALL.map(|(rows, exact)| (rows, ms(exact))));
        (0..20).for_each(|_| model.observe_levels(&mut [(1, ms(5.0))]));
        assert!(model.costs().ratio() > 1.0);
        (0..1000).for_each(|_| model.observe_verification(0, round(0.2, ms(0.66))));
        assert!(model.costs().ratio() < 0.5);
    }

    #[test]
    fn levels_of_a_round_count_by_their_mean_and_a_hiccup_by_little() {
        let mut model = CostModel::default();
        let mut after = |levels: [f64; 4]| {
            (0..60).for_each(|_| model.observe_levels(&mut levels.map(|took| (1, ms(took)))));
            model.costs().level.at(1)
        };
        assert!((after([1.0, 0.4, 0.4, 0.6]) - 0.6).abs() < 0.01);
        assert!((after([0.5, 40.0, 0.5, 0.5]) - 0.75).abs() < 0.02);
    }

    #[test]
    fn one_hiccup_hardly_counts() {
        let mut model = CostModel::default();
        (0..50).for_each(|_| model.observe_levels(&mut [(1, ms(1.0))]));
        model.observe_levels(&mut [(1, ms(10_000.0))]);
        assert!(model.costs().level_ms < 1.2);
    }

    proptest! {
        #[test]
        fn costs_are_finite_and_never_fall_with_nodes(
            measured in prop::collection::vec((0_usize..400, 0_u64..u64::MAX / 2, 0_u64..u64::MAX / 2), 0..60)
        ) {
            let mut model = CostModel::default();
            for (nodes, elapsed, compute) in measured {
                let (elapsed, compute) = (Duration::from_nanos(elapsed), Duration::from_nanos(compute));
                let took = RoundTime::alone(elapsed, compute);
                model.observe_verification(nodes, took);
            }
            let costs = model.costs();
            let curve = costs.verification;
            prop_assert!(costs.verification_ms > 0.0 && costs.ratio().is_finite());
            prop_assert!(curve.at(0) >= 0.0 && curve.at(1000).is_finite(), "{curve:?}");
            prop_assert!((1..400).all(|nodes| curve.at(nodes) >= curve.at(nodes - 1) * (1.0 - 1e-12)), "{curve:?}");
        }
    }
}
