//! Draft policies: which nodes to draft, when to stop, what to send.
//!
//! A policy is asked level by level and never sees a model; the [`crate::Grower`] runs it. One
//! file per policy, one line per policy in [`registry::CHAINS`] or [`registry::TREES`].

mod beta_ts;
mod cali_ts;
mod cape;
mod chain;
mod constant;
mod drawn;
mod draws;
mod eagle2;
mod expected_gain;
mod heuristic;
mod kind;
mod opt_tree;
mod param;
mod pct;
mod registry;
mod spec;
mod stopping;
mod svip;
mod vanilla_tree;

use std::any::Any;
use std::sync::Arc;

use crate::draft::Draft;
use crate::{Candidates, Costs, RoundRecord};

pub use beta_ts::BetaBelief;
pub use cali_ts::CalibratedBelief;
pub use drawn::{PruningPolicy, drawn_policy_names};
pub use registry::{policy_help, policy_names};
pub use spec::{PolicyError, PolicySpec, parse_policy};

/// The two maxima that bound every policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most nodes sent, over all levels.
    pub max_nodes: usize,
    /// Most levels drafted.
    pub max_depth: usize,
}

impl Limits {
    /// The smaller of each maximum.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { max_nodes: self.max_nodes.min(other.max_nodes), max_depth: self.max_depth.min(other.max_depth) }
    }
}

/// What a policy may know when a round begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundStart {
    /// Measured costs of drafting and verifying.
    pub costs: Costs,
    /// Bounds of this round: what the verifier takes, and what is left to generate.
    pub limits: Limits,
    /// Absolute position of the root.
    pub position: u64,
    /// The request's seed: with `position` it makes every random draw of a policy repeatable.
    pub seed: u64,
}

/// A way to grow candidate trees, with what it remembers of one sequence.
///
/// Each round: [`Policy::begin`]; then [`Policy::expand`] before every level, until it returns
/// nothing; then [`Policy::keep`]; and after verification [`Policy::observe`].
pub trait Policy: Send {
    /// Starts a round. `start.limits` are in force already; a policy that plans within them
    /// (OPT-Tree's `n`) reads them here.
    fn begin(&mut self, _start: &RoundStart) {}

    /// Candidates wanted of each node at most.
    fn width(&self) -> usize;

    /// How many of these candidates become children.
    fn fan_out(&self, _candidates: &Candidates) -> usize {
        self.width()
    }

    /// Most nodes of one level: the best of its candidates.
    fn level_max(&self) -> usize {
        usize::MAX
    }

    /// Whether only the `max_nodes` best of all levels stay after every level; the others are
    /// never expanded. A policy that chooses what to send by itself answers no.
    fn trims(&self) -> bool {
        true
    }

    /// Whether it may be used where tokens are drawn, for rejection acceptance: it keeps every node drafted, and
    /// nothing it decides about siblings depends on their own probability. One that chooses the best answers no.
    fn suits_drawn(&self) -> bool {
        false
    }

    /// Whether it makes something of a predictor's chances: [`Candidates::predicting`].
    fn reads_predictions(&self) -> bool {
        false
    }

    /// The nodes to run next, out of [`Draft::expandable`]; nothing ends the round. Asked before
    /// the first level too, when the root alone is expandable.
    fn expand(&mut self, draft: &Draft) -> Vec<usize>;

    /// The nodes to send. Those without their parent, and those beyond the `max_nodes` best, are
    /// not sent.
    fn keep(&mut self, draft: &Draft) -> Vec<usize> {
        draft.kept().collect()
    }

    /// Learns how the round went; `path` holds the draft numbers of the accepted nodes, from the
    /// root (excluded) downwards. Tokens cut off by a stop are in neither.
    fn observe(&mut self, _round: &RoundRecord, _path: &[usize]) {}

    /// What it learns that holds beyond its sequence, if it learns such things.
    fn experience(&self) -> Option<Experience> {
        None
    }

    /// Learns together with one of its kind, for a sequence of the same target, drafter and parameters, from now on.
    fn build_on(&mut self, _experience: &Experience) {}
}

/// What a policy learns from a sequence, for others to begin with and to add to: its own, and nobody else's to read.
#[derive(Clone)]
pub struct Experience(Arc<dyn Any + Send + Sync>);

impl Experience {
    fn new(learned: impl Any + Send + Sync) -> Self {
        Self(Arc::new(learned))
    }

    /// What was learned, if it is of this type.
    fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}
