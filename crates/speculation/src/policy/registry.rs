//! The policies there are: one line each.

use std::fmt::Write;

use super::chain::StopTest;
use super::param::{Param, Values};
use super::stopping::{EVERY, STOP, STOP_PREFIX};
use super::{
    Policy, beta_ts, cali_ts, cape, constant, eagle2, expected_gain, heuristic, opt_tree, pct, svip, vanilla_tree,
};
use crate::tree::MAX_TREE_NODES;

/// The chain policies, in the order of the help text; the test that ends one may end a tree's growth too.
pub(super) const CHAINS: &[ChainKind] = &[constant::KIND, heuristic::KIND, svip::KIND, beta_ts::KIND, cali_ts::KIND];

/// The tree policies, in the order of the help text.
pub(super) const TREES: &[Kind] =
    &[vanilla_tree::KIND, cape::KIND, eagle2::KIND, opt_tree::KIND, pct::KIND, expected_gain::KIND];

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

/// Names of all policies, in the order of the help text.
pub fn policy_names() -> impl Iterator<Item = &'static str> {
    CHAINS.iter().map(|kind| kind.name).chain(TREES.iter().map(|kind| kind.name))
}

/// What can be written where a policy is asked for: a line for each policy and parameter.
pub fn policy_help() -> String {
    let mut help = String::new();
    for kind in CHAINS {
        describe(&mut help, kind);
    }
    for kind in TREES {
        describe(&mut help, kind);
    }
    let tests = CHAINS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    let _ = writeln!(help, "Every tree policy also takes the test of a chain policy, which may end its growth:");
    let _ = writeln!(help, "    {STOP}=none: the chain policy whose test it is ({tests} or none)");
    let _ = writeln!(help, "{}", EVERY.help());
    let _ = writeln!(help, "    {STOP_PREFIX}KEY: a parameter of that policy, as in {STOP}=svip,{STOP_PREFIX}h=0.4");
    help
}

fn describe<Build>(help: &mut String, kind: &Kind<Build>) {
    let _ = writeln!(help, "{}: {}", kind.name, kind.about);
    for param in kind.params {
        let _ = writeln!(help, "{}", param.help());
    }
}
