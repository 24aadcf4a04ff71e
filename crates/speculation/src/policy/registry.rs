//! The policies there are: one line each.

use std::fmt::Write;

use super::kind::{ChainKind, EVERY, Kind, STOP, STOP_PREFIX};
use super::{beta_ts, cali_ts, cape, constant, eagle2, expected_gain, heuristic, opt_tree, pct, svip, vanilla_tree};

/// The chain policies, in the order of the help text; the test that ends one may end a tree's growth too.
pub(super) const CHAINS: &[ChainKind] = &[constant::KIND, heuristic::KIND, svip::KIND, beta_ts::KIND, cali_ts::KIND];

/// The tree policies, in the order of the help text.
pub(super) const TREES: &[Kind] =
    &[vanilla_tree::KIND, cape::KIND, eagle2::KIND, opt_tree::KIND, pct::KIND, expected_gain::KIND];

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
    let _ = writeln!(help, "Every policy takes gate=off: draft even where plain decoding makes more (on or off)");
    help
}

fn describe<Build>(help: &mut String, kind: &Kind<Build>) {
    let _ = writeln!(help, "{}: {}", kind.name, kind.about);
    for param in kind.params {
        let _ = writeln!(help, "{}", param.help());
    }
}
