//! The policies there are: one line each.

use std::fmt::Write;

use super::param::{Param, Value, Values};
use super::{Policy, cape, constant, eagle2, expected_gain, heuristic, opt_tree, pct, svip, vanilla_tree};
use crate::tree::MAX_TREE_NODES;

/// The policies, in the order of the help text.
pub(super) const KINDS: &[Kind] = &[
    constant::KIND,
    heuristic::KIND,
    svip::KIND,
    vanilla_tree::KIND,
    cape::KIND,
    eagle2::KIND,
    opt_tree::KIND,
    pct::KIND,
    expected_gain::KIND,
];

/// Longest chain, deepest tree, widest node and largest tree that a policy may ask for.
pub(super) const LENGTH_MAX: u32 = 64;
pub(super) const DEPTH_MAX: u32 = 64;
pub(super) const WIDTH_MAX: u32 = 64;
pub(super) const TOTAL_MAX: u32 = MAX_TREE_NODES as u32;

/// A policy's name, its parameters and how it is made of them.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its name in `name,key=value`.
    pub(super) name: &'static str,
    /// What it does, for the help text.
    pub(super) about: &'static str,
    /// Its parameters; each kind has `max_nodes` and `max_depth`.
    pub(super) params: &'static [Param],
    /// Makes the policy of one sequence.
    pub(super) build: fn(&Values) -> Box<dyn Policy>,
}

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

/// Names of all policies, in the order of the help text.
pub fn policy_names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// What can be written where a policy is asked for: a line for each policy and parameter.
pub fn policy_help() -> String {
    let mut help = String::new();
    for kind in KINDS {
        let _ = writeln!(help, "{}: {}", kind.name, kind.about);
        for param in kind.params {
            let default = Value(param.default);
            let _ = writeln!(help, "    {}={default}: {} ({param})", param.key, param.about);
        }
    }
    help
}
