//! What drafting and verifying cost, learnt from measured durations.
//!
//! No clock is read here: whoever measures passes the durations in, so a test decides them.

use std::time::Duration;

/// A cost that grows linearly with the number of nodes, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Cost of a step whatever its size, at least 0.
    pub fixed_ms: f64,
    /// Cost of one more node, at least 0.
    pub per_node_ms: f64,
}

impl Line {
    /// Cost of a step of `nodes` nodes.
    pub fn at(&self, nodes: usize) -> f64 {
        self.fixed_ms + self.per_node_ms * nodes as f64
    }
}

/// A snapshot of what a round costs now; all times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// `s_d`: one draft level, as lately used.
    pub level_ms: f64,
    /// `s_t`: one verification round trip, network and queue included, as lately used.
    pub verification_ms: f64,
    /// `T_d(w)`: a draft level of `w` nodes.
    pub level: Line,
    /// `T_v(n)`: the verification of a tree of `n` nodes.
    pub verification: Line,
}

impl Default for Costs {
    /// What is assumed before anything is measured: one verification costs ten draft levels, and
    /// sixteen nodes cost twice what one does.
    fn default() -> Self {
        let verification = Line { fixed_ms: 10.0, per_node_ms: 0.6 };
        let level = Line { fixed_ms: 1.0, per_node_ms: 0.06 };
        Self { level_ms: level.at(1), verification_ms: verification.at(1), level, verification }
    }
}

impl Costs {
    /// `mu`: the time of one draft level relative to one verification.
    pub fn ratio(&self) -> f64 {
        self.level_ms / self.verification_ms
    }
}

/// Share of its weight that an old measurement keeps when a new one arrives: the last 20 decide.
const KEEP: f64 = 0.95;

/// A running fit of [`Costs`] to measured durations; old measurements fade.
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
    /// A model that believes `prior` until it is measured otherwise.
    pub fn new(prior: &Costs) -> Self {
        Self { level: Fit::new(prior.level), verification: Fit::new(prior.verification) }
    }

    /// One draft level over `nodes` nodes took this long.
    pub fn observe_level(&mut self, nodes: usize, took: Duration) {
        self.level.add(nodes, took);
    }

    /// The verification of a tree of `nodes` nodes took this long, from sending the tree to
    /// having its outcome.
    pub fn observe_verification(&mut self, nodes: usize, took: Duration) {
        self.verification.add(nodes, took);
    }

    /// The costs as they stand.
    pub fn costs(&self) -> Costs {
        Costs {
            level_ms: self.level.ms,
            verification_ms: self.verification.ms,
            level: self.level.line(),
            verification: self.verification.line(),
        }
    }
}

/// A measurement counts as at most this many times what was expected: a hiccup of the machine
/// must not decide the next trees, while a lasting change is followed within a few rounds.
const OUTLIER_MAX: f64 = 4.0;

/// A measurement counts as at least this: no step is free, whatever a coarse clock says.
const LEAST_MS: f64 = 1e-3;

/// Weight of the prior's relative slope, in squared nodes: it decides only as long as all
/// measurements are of about the same number of nodes.
const RIDGE: f64 = 4.0;

/// Least squares through faded measurements (nodes, milliseconds).
#[derive(Debug, Clone)]
struct Fit {
    prior: Line,
    /// Faded number of measurements.
    weight: f64,
    /// Their mean nodes and milliseconds.
    nodes: f64,
    ms: f64,
    /// Variance of their nodes, and its covariance with their milliseconds.
    variance: f64,
    covariance: f64,
}

impl Fit {
    fn new(prior: Line) -> Self {
        Self { prior, weight: 0.0, nodes: 1.0, ms: prior.at(1), variance: 0.0, covariance: 0.0 }
    }

    fn add(&mut self, nodes: usize, took: Duration) {
        let mut ms = (took.as_secs_f64() * 1e3).max(LEAST_MS);
        if self.weight > 0.0 {
            ms = ms.min(self.line().at(nodes).max(self.ms) * OUTLIER_MAX);
        }
        self.weight = self.weight * KEEP + 1.0;
        let share = 1.0 / self.weight;
        let (nodes_off, ms_off) = (nodes as f64 - self.nodes, ms - self.ms);
        self.nodes += share * nodes_off;
        self.ms += share * ms_off;
        let fade = 1.0 - share;
        self.variance = fade * (self.variance + share * nodes_off * nodes_off);
        self.covariance = fade * (self.covariance + share * nodes_off * ms_off);
    }

    fn line(&self) -> Line {
        if self.weight == 0.0 {
            return self.prior;
        }
        let per_node_ms = self.slope();
        Line { fixed_ms: (self.ms - per_node_ms * self.nodes).max(0.0), per_node_ms }
    }

    /// The slope that fits best, drawn towards the prior's share of the cost; a cost can neither
    /// fall with the nodes nor be negative without any.
    fn slope(&self) -> f64 {
        let at_mean = self.prior.fixed_ms + self.prior.per_node_ms * self.nodes;
        let share = self.prior.per_node_ms / at_mean.max(f64::MIN_POSITIVE);
        let believed = share * self.ms;
        let weight = self.weight;
        let slope = (weight * self.covariance + RIDGE * believed) / (weight * self.variance + RIDGE);
        slope.clamp(0.0, self.ms / self.nodes.max(f64::MIN_POSITIVE))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    #[test]
    fn the_prior_holds_until_something_is_measured() {
        let costs = CostModel::default().costs();
        assert_eq!(costs, Costs::default());
        assert!((costs.ratio() - 0.1).abs() < 1e-12);
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
        let line = model.costs().verification;
        assert!((line.per_node_ms - 0.5).abs() < 0.01, "{line:?}");
        assert!((line.fixed_ms - 3.0).abs() < 0.1, "{line:?}");
    }

    #[test]
    fn a_lasting_change_is_followed_within_some_rounds() {
        let mut model = CostModel::default();
        (0..50).for_each(|_| model.observe_verification(8, ms(2.0)));
        (0..50).for_each(|_| model.observe_verification(8, ms(20.0)));
        assert!((model.costs().verification_ms - 20.0).abs() < 2.0);
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
            let line = costs.verification;
            prop_assert!(costs.verification_ms > 0.0 && costs.ratio().is_finite());
            prop_assert!(line.fixed_ms >= 0.0 && line.per_node_ms >= 0.0, "{line:?}");
            prop_assert!(line.at(1000).is_finite());
        }
    }
}
