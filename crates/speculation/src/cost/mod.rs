//! What drafting and verifying cost, learnt from measured durations.
//!
//! No clock is read here: whoever measures passes the durations in, so a test decides them.

mod curve;
mod fit;

use std::time::Duration;

pub use curve::{CURVE_POINTS_MAX, Curve};
use fit::Fit;

/// A snapshot of what a round costs now; all times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// `s_d`: one draft level, as lately used.
    pub level_ms: f64,
    /// `s_t`: one verification round trip, network and queue included, as lately used.
    pub verification_ms: f64,
    /// `T_d(w)`: a draft level of `w` nodes.
    pub level: Curve,
    /// `T_v(n)`: the verification of a tree of `n` nodes, its root not counted.
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

/// Most nodes of a step that is learnt from: more are a prompt's, not a tree's.
const NODES_MAX: usize = 256;

/// What a round trip takes besides the verification itself, until it is measured.
const OVERHEAD_MS: f64 = 0.2;

/// A running fit of [`Costs`] to measured durations; old measurements fade.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use espalier_speculation::CostModel;
/// let us = Duration::from_micros;
/// let mut model = CostModel::default();
/// model.expect_verification([(1, us(660)), (8, us(1100)), (64, us(7000))]);
/// model.observe_verification(7, us(1400)); // seven nodes and the root: 0.3 ms on the way
/// let without_a_tree = model.costs().verification.at(0); // most of the excess is the way there
/// assert!((0.86..0.97).contains(&without_a_tree));
/// ```
#[derive(Debug, Clone)]
pub struct CostModel {
    level: Fit,
    verification: Fit,
}

impl Default for CostModel {
    fn default() -> Self {
        Self::new(&Costs::default())
    }
}

impl CostModel {
    /// A model that believes the proportions of `prior` until it is measured otherwise.
    pub fn new(prior: &Costs) -> Self {
        Self { level: Fit::new(&prior.level), verification: Fit::new(&prior.verification) }
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
        let points = measured.into_iter().map(|(rows, took)| (rows.saturating_sub(1), OVERHEAD_MS + ms(took)));
        if let Some(curve) = Curve::through(points) {
            self.verification = Fit::measured(&curve);
        }
    }

    /// One draft level over `nodes` nodes took this long.
    pub fn observe_level(&mut self, nodes: usize, took: Duration) {
        if nodes <= NODES_MAX {
            self.level.add(nodes, took);
        }
    }

    /// The verification of a tree of `nodes` nodes took this long, from sending the tree to
    /// having its outcome.
    pub fn observe_verification(&mut self, nodes: usize, took: Duration) {
        if nodes == 0 {
            self.level.rest();
        }
        if nodes <= NODES_MAX {
            self.verification.add(nodes, took);
        }
    }

    /// The costs as they stand.
    pub fn costs(&self) -> Costs {
        Costs {
            level_ms: self.level.mean_ms(),
            verification_ms: self.verification.mean_ms(),
            level: self.level.curve(),
            verification: self.verification.curve(),
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
        model.observe_level(1, ms(0.25));
        model.observe_verification(1, ms(5.0));
        let costs = model.costs();
        assert!((costs.level_ms - 0.25).abs() < 1e-9);
        assert!((costs.ratio() - 0.05).abs() < 1e-9);
        // How cost grows with nodes is still believed: in proportion to the prior.
        assert!((costs.verification.at(16) / costs.verification.at(1) - 19.6 / 10.6).abs() < 1e-9);
    }

    #[test]
    fn a_linear_cost_is_recovered() {
        let mut model = CostModel::default();
        for round in 0..200 {
            let nodes = round % 16;
            model.observe_verification(nodes, ms(3.0 + 0.5 * nodes as f64));
        }
        let found = model.costs().verification;
        assert!(error(&found, &Curve::line(3.0, 0.5), &[0, 1, 4, 8, 15]) < 0.05, "{found:?}");
    }

    #[test]
    fn what_the_verifier_measured_is_believed_from_the_first_round_on() {
        let expected = medium(OVERHEAD_MS, 1.0);
        assert!(error(&seeded().costs().verification, &expected, &[0, 1, 3, 7, 15, 31, 63]) < 1e-5);
        // One round tells how far away it is; the arithmetic stays what it was.
        let mut model = seeded();
        model.observe_verification(7, ms(5.0 + 1.1));
        let found = model.costs().verification;
        assert!(error(&found, &medium(5.0, 1.0), &[0, 1, 7, 15, 63]) < 0.15, "{found:?}");
    }

    #[test]
    fn few_noisy_sizes_tell_of_distance_and_load() {
        for (way, load) in [(0.2, 1.0), (3.0, 1.0), (0.2, 3.0)] {
            let (mut model, exact) = (seeded(), medium(way, load));
            for round in 0..150 {
                let nodes = [2, 3, 5, 6, 8][round as usize % 5];
                model.observe_verification(nodes, jittered(exact.at(nodes), round));
            }
            let found = model.costs().verification;
            assert!(error(&found, &exact, &[2, 3, 5, 6, 8]) < 0.12, "{way} {load}: {found:?}");
            assert!(error(&found, &exact, &[0, 15]) < 0.35, "{way} {load}: {found:?}");
        }
    }

    #[test]
    fn when_a_load_goes_the_sizes_that_it_kept_from_being_tried_are_believed_cheaper_too() {
        let (mut model, loaded, free) = (seeded(), medium(0.2, 3.5), medium(0.2, 1.0));
        for round in 0..60 {
            let nodes = [1, 2, 3, 5, 6][round as usize % 5];
            model.observe_verification(nodes, jittered(loaded.at(nodes), round));
        }
        (0..60).for_each(|round| model.observe_verification(round as usize % 2, jittered(free.at(1), round)));
        let found = model.costs().verification;
        assert!(error(&found, &free, &[0, 1, 2, 3, 5, 8]) < 0.4, "{found:?}");
    }

    #[test]
    fn a_shape_nobody_expected_is_learnt() {
        let exact = Curve::through(SMALL).unwrap();
        let mut model = CostModel::default();
        for round in 0..390 {
            let nodes = [1, 1, 3, 5, 8, 12, 16][round as usize % 7];
            model.observe_level(nodes, jittered(exact.at(nodes), round));
        }
        let found = model.costs().level;
        assert!(error(&found, &exact, &[1, 3, 5, 8, 12, 16]) < 0.15, "{found:?}");
    }

    #[test]
    fn a_prompt_is_no_level() {
        let mut model = CostModel::default();
        model.observe_level(NODES_MAX + 1, ms(99.0));
        assert_eq!(model.costs(), Costs::default());
    }

    #[test]
    fn a_lasting_change_is_followed_within_some_rounds() {
        let mut model = CostModel::default();
        (0..50).for_each(|_| model.observe_verification(8, ms(2.0)));
        (0..50).for_each(|_| model.observe_verification(8, ms(20.0)));
        assert!((model.costs().verification_ms - 20.0).abs() < 2.0);
    }

    #[test]
    fn an_unlucky_beginning_is_forgotten_while_nothing_is_drafted() {
        let mut model = seeded();
        model.expect_levels(SMALL.map(|(rows, exact)| (rows, ms(exact))));
        (0..20).for_each(|_| model.observe_level(1, ms(5.0)));
        assert!(model.costs().ratio() > 1.0);
        (0..1000).for_each(|_| model.observe_verification(0, ms(0.86)));
        assert!(model.costs().ratio() < 0.5);
    }

    #[test]
    fn one_hiccup_hardly_counts() {
        let mut model = CostModel::default();
        (0..50).for_each(|_| model.observe_level(1, ms(1.0)));
        model.observe_level(1, ms(10_000.0));
        assert!(model.costs().level_ms < 1.2);
    }

    proptest! {
        #[test]
        fn costs_are_finite_and_never_fall_with_nodes(
            measured in prop::collection::vec((0_usize..400, 0_u64..u64::MAX / 2), 0..60)
        ) {
            let mut model = CostModel::default();
            for (nodes, nanos) in measured {
                model.observe_verification(nodes, Duration::from_nanos(nanos));
            }
            let costs = model.costs();
            let curve = costs.verification;
            prop_assert!(costs.verification_ms > 0.0 && costs.ratio().is_finite());
            prop_assert!(curve.at(0) >= 0.0 && curve.at(1000).is_finite(), "{curve:?}");
            prop_assert!((1..400).all(|nodes| curve.at(nodes) >= curve.at(nodes - 1) * (1.0 - 1e-12)), "{curve:?}");
        }
    }
}
