//! Trees and credit that are none.

use espalier_proto::pb;

use super::way::{Must, Spoiled, Way, odd, refused, spoiled};
use crate::hostile::usual;
use espalier_fuzz::Dice;

/// What comes after a good opening.
pub(super) fn submission(dice: &mut Dice) -> Spoiled<pb::VerifyRequest> {
    let refuse = |message| Spoiled { message, must: Must::Refuse };
    match dice.below(8) {
        0 => refuse(usual::open(dice)),
        1 => refuse(pb::VerifyRequest::default()),
        2 => refuse(usual::credit(0, *dice.pick(&[0, 65, 1 << 31, u32::MAX]))),
        3 => refuse(usual::credit(*dice.pick(&[1, 1 << 63, u64::MAX]), 1)),
        _ => {
            let tree = spoiled(usual::candidates(dice), &TREES, dice);
            Spoiled { message: usual::tree_of(tree.message), must: tree.must }
        }
    }
}

fn drawn(node: u32, tokens: Vec<u32>, probs: Vec<f64>) -> pb::DraftDistribution {
    pb::DraftDistribution { node, tokens, probs }
}

/// Where the children of the usual tree may have been drawn from, as rejection wants to know.
fn draw(tree: &mut pb::CandidateTree) {
    let tokens = &tree.tokens;
    let root = drawn(0, vec![tokens[0], tokens[1]], vec![0.5, 0.5]);
    tree.drawn_from = vec![root, drawn(1, vec![tokens[2]], vec![1.0])];
}

const TREES: [Way<pb::CandidateTree>; 27] = [
    refused(|tree, _| tree.round = 1),
    refused(|tree, _| tree.round = u64::MAX),
    refused(|tree, _| tree.tokens.clear()),
    refused(|tree, _| tree.tokens.push(7)),
    refused(|tree, _| tree.parents.clear()),
    refused(|tree, _| tree.probs.push(0.1)),
    refused(|tree, _| tree.parents[0] = 1),
    refused(|tree, _| tree.parents[1] = 3),
    refused(|tree, _| tree.parents[2] = u32::MAX),
    refused(|tree, _| tree.tokens[0] = 4096),
    refused(|tree, _| tree.tokens[2] = u32::MAX),
    refused(|tree, _| tree.tokens[1] = tree.tokens[0]),
    refused(|tree, _| tree.probs[0] = f64::NAN),
    refused(|tree, _| tree.probs[1] = 0.0),
    refused(|tree, _| tree.probs[2] = 1.5),
    refused(|tree, _| tree.probs[0] = -0.5),
    refused(|tree, dice| large(tree, 364 + dice.below(1 << 15))),
    refused(|tree, _| tree.drawn_from = vec![drawn(0, vec![7], vec![1.0])]),
    refused(|tree, _| tree.drawn_from = vec![drawn(u32::MAX, Vec::new(), vec![f64::NAN])]),
    odd(|tree, _| large(tree, 363)),
    odd(|tree, _| draw(tree)),
    refused(|tree, _| {
        draw(tree);
        tree.drawn_from[0].probs = vec![f64::NAN, 0.5];
    }),
    refused(|tree, _| {
        draw(tree);
        tree.drawn_from[0].probs = vec![1.0, 1.0];
    }),
    refused(|tree, _| {
        draw(tree);
        tree.drawn_from[1].node = 0;
    }),
    refused(|tree, dice| {
        draw(tree);
        tree.drawn_from[1].node = *dice.pick(&[4, 1 << 31, u32::MAX]);
    }),
    refused(|tree, _| {
        draw(tree);
        tree.drawn_from[0].tokens = vec![u32::MAX, 7];
    }),
    refused(|tree, dice| {
        draw(tree);
        tree.drawn_from = vec![tree.drawn_from[1].clone(); 2 + dice.below(1 << 10)];
    }),
];

/// A chain of so many nodes.
fn large(tree: &mut pb::CandidateTree, nodes: usize) {
    tree.tokens = vec![7; nodes];
    tree.parents = (0..nodes as u32).collect();
    tree.probs = vec![0.5; nodes];
}
