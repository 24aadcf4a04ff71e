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

/// A measurement counts as at most this many times the running mean: a hiccup of the machine
/// must not decide the next trees, while a lasting change is followed within a few rounds.
const OUTLIER_MAX: f64 = 4.0;

/// Weight of the prior's relative slope, in squared nodes: it decides only as long as all
/// measurements are of about the same number of nodes.
const RIDGE: f64 = 4.0;

/// Least squares through faded measurements (nodes, milliseconds).
#[derive(Debug, Clone)]
struct Fit {
    prior: Line,
    weight: f64,
    /// Weighted means of nodes and milliseconds, and of their (co)variances about these means.
    nodes: f64,
    ms: f64,
    variance: f64,
    covariance: f64,
}

impl Fit {
    fn new(prior: Line) -> Self {
        Self { prior, weight: 0.0, nodes: 1.0, ms: prior.at(1), variance: 0.0, covariance: 0.0 }
    }

    fn add(&mut self, nodes: usize, took: Duration) {
        let mut ms = took.as_secs_f64() * 1e3;
        if self.weight > 0.0 {
            ms = ms.min(self.ms * OUTLIER_MAX);
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
