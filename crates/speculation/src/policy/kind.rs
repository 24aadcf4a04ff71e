//! What a policy declares of itself, and the parameters that many have in common.

use super::Policy;
use super::chain::StopTest;
use super::param::{Param, Values};
use crate::tree::MAX_TREE_NODES;

/// Longest chain, deepest tree, widest node and largest tree that a policy may ask for.
pub(super) const LENGTH_MAX: u32 = 64;
pub(super) const DEPTH_MAX: u32 = 64;
pub(super) const WIDTH_MAX: u32 = 64;
pub(super) const TOTAL_MAX: u32 = MAX_TREE_NODES as u32;

/// A policy's name, its parameters and how it is made of them.
#[derive(Debug)]
pub(super) struct Kind<Build = fn(&Values) -> Box<dyn Policy>> {
    /// Its name in `name,key=value`.
    pub(super) name: &'static str,
    /// What it does, for the help text.
    pub(super) about: &'static str,
    /// Its parameters; each kind has `max_nodes` and `max_depth`.
    pub(super) params: &'static [Param],
    /// Makes the policy of one sequence.
    pub(super) build: Build,
}

/// The same of a chain policy: what is made is the test that ends it.
pub(super) type ChainKind = Kind<fn(&Values) -> Box<dyn StopTest>>;

/// The bound on nodes sent, with a policy's own default.
pub(super) const fn max_nodes(default: u32) -> Param {
    Param::count("max_nodes", default, (1, TOTAL_MAX), "most nodes sent")
}

/// The bound on levels, with a policy's own default.
pub(super) const fn max_depth(default: u32) -> Param {
    Param::count("max_depth", default, (1, DEPTH_MAX), "most levels drafted")
}

/// The bound on levels where a policy has none of its own.
pub(super) const fn general_depth() -> Param {
    max_depth(16)
}

/// The bound on a chain's length.
pub(super) const fn chain_depth() -> Param {
    max_depth(40)
}

/// A policy's own depth.
pub(super) const fn depth(default: u32) -> Param {
    Param::count("depth", default, (1, DEPTH_MAX), "levels of the tree")
}

/// The key that puts the test of a chain policy on a tree policy.
pub(super) const STOP: &str = "stop";

/// What comes before the key of one of the test's own parameters.
pub(super) const STOP_PREFIX: &str = "stop.";

/// Levels from one test to the next.
pub(super) const EVERY: Param = Param::count("every", 1, (1, DEPTH_MAX), "levels from one such test to the next");
