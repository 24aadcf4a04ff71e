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
        let verification = Line {
            fixed_ms: 10.0,
            per_node_ms: 0.6,
        };
        let level = Line {
            fixed_ms: 1.0,
            per_node_ms: 0.06,
        };
        Self {
            level_ms: level.at(1),
            verification_ms: verification.at(1),
            level,
            verification,
        }
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
        Self {
            level: Fit::new(prior.level),
            verification: Fit::new(prior.verification),
        }
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
            level_ms: self.level.mean(),
            verification_ms: self.verification.mean(),
            level: self.level.line(),
            verification: self.verification.line(),
        }
    }
}

/// Least squares through faded measurements (nodes, milliseconds), held to a prior line by two
/// points of it that carry little weight: they decide only what the measurements leave open.
#[derive(Debug, Clone)]
struct Fit {
    prior: Line,
    sums: Moments,
}

/// Weighted sums over points (x, y).
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Moments {
    fn fade(&mut self, keep: f64) {
        for sum in [&mut self.weight, &mut self.x, &mut self.y, &mut self.xx, &mut self.xy] {
            *sum *= keep;
        }
    }

    fn add(&mut self, weight: f64, x: f64, y: f64) {
        self.weight += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
    }

    /// The slope of the least-squares line; the weights of two different x must be there.
    fn slope(&self) -> f64 {
        let spread = self.weight * self.xx - self.x * self.x;
        (self.weight * self.xy - self.x * self.y) / spread
    }
}
