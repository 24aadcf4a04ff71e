#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{LIMITS, draft, grower, start};
use crate::{Curve, Grower, Proposal};

/// A round at these costs with a drafter that gives every node the same children.
fn round(grower: &mut Grower, costs: Costs, probs: &[f64]) -> Proposal {
    draft(grower, &RoundStart { costs, ..start(LIMITS) }, |_| probs.to_vec())
}

/// Rounds of which the target accepts the first `accepted` nodes of the likeliest path.
fn rounds(grower: &mut Grower, costs: Costs, probs: &[f64], accepted: usize, count: usize) -> Vec<Proposal> {
    let one = |_| {
        let proposal = round(grower, costs, probs);
        let mut path = Vec::new();
        while let Some(next) = proposal.tree.child_with(path.last().copied().unwrap_or(0), 0)
            && path.len() < accepted
        {
            path.push(next);
        }
        grower.observe(&path, path.len() + 1);
        proposal
    };
    (0..count).map(one).collect()
}

fn costs(level_ms: f64, verification: Curve) -> Costs {
    Costs::new(Curve::line(level_ms, 0.0), verification)
}

#[test]
fn the_dearer_verification_is_the_fewer_nodes_are_sent() {
    let nodes = |per_node| {
        let costs = costs(1.0, Curve::line(10.0, per_node));
        rounds(&mut grower("expected-gain", &[]), costs, &[0.6, 0.2, 0.1], 2, 40)[39].tree.len()
    };
    let (free, cheap, dear) = (nodes(0.0), nodes(0.1), nodes(30.0));
    assert!(free > cheap && cheap > dear, "{free} {cheap} {dear}");
}

#[test]
fn sequences_share_what_they_learn() {
    let costs = costs(1.0, Curve::line(10.0, 0.1));
    let learn = |policy, accepted| {
        let mut first = grower(policy, &[]);
        rounds(&mut first, costs, &[0.6, 0.2, 0.1], accepted, 40);
        first.experience()
    };
    let size_after = |experience: Option<Experience>| {
        let mut next = grower("expected-gain", &[]);
        experience.iter().for_each(|experience| next.build_on(experience));
        round(&mut next, costs, &[0.6, 0.2, 0.1]).tree.len()
    };
    assert!(size_after(learn("expected-gain", 0)) < size_after(None));
    assert!(learn("expected-gain,ratio=0.1", 0).is_none() && learn("svip", 0).is_none());

    let [mut one, mut other] = [(), ()].map(|()| grower("expected-gain", &[]));
    one.experience().iter().for_each(|experience| other.build_on(experience));
    rounds(&mut one, costs, &[0.6, 0.2, 0.1], 0, 40);
    assert!(round(&mut other, costs, &[0.6, 0.2, 0.1]).tree.len() < size_after(None));
}

#[test]
fn the_farther_the_verifier_the_deeper_the_tree() {
    let depth = |way_ms| {
        let costs = costs(1.0, Curve::line(way_ms, 0.2));
        round(&mut grower("expected-gain", &[]), costs, &[0.6]).tree.depth()
    };
    assert!(depth(100.0) > depth(4.0));
}

#[test]
fn a_drafter_too_sure_of_itself_gets_shallower_trees() {
    let (mut grower, costs) = (grower("expected-gain", &[]), costs(1.0, Curve::line(10.0, 0.3)));
    let trusting = rounds(&mut grower, costs, &[0.95], 16, 60)[59].tree.depth();
    let wary = rounds(&mut grower, costs, &[0.95], 1, 120)[119].tree.depth();
    assert!(wary <= 3 && trusting > 6, "{trusting} {wary}");
}

#[test]
fn the_same_rounds_give_the_same_trees() {
    let run = || {
        let costs = costs(1.0, Curve::line(4.0, 0.4));
        rounds(&mut grower("expected-gain", &[]), costs, &[0.5, 0.3, 0.1], 1, 80)
    };
    assert_eq!(run(), run());
}

#[test]
fn beam_and_width_are_maxima() {
    let costs = costs(0.01, Curve::line(50.0, 0.0));
    let proposal = round(&mut grower("expected-gain,beam=2,width=3,max_depth=3", &[]), costs, &[0.25; 4]);
    assert_eq!((proposal.widths, proposal.drafted), (vec![1, 2, 2], 3 + 6 + 6));
}
