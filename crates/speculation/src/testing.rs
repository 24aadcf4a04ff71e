//! What the tests of growing share: a drafter made of a function.

use crate::{Candidates, Costs, Grower, Gumbel, Limits, Proposal, RoundStart, Token, parse_policy};

/// Limits that no test's policy reaches.
pub(crate) const LIMITS: Limits = Limits { max_nodes: 64, max_depth: 16 };

/// A round within `limits` at the default costs, of which `s_d / s_t` is 0.1.
pub(crate) fn start(limits: Limits) -> RoundStart {
    RoundStart { costs: Costs::default(), limits, position: 0, seed: 0 }
}

/// A grower under `policy`, as it is written.
pub(crate) fn grower(policy: &str, stops: &[Token]) -> Grower {
    Grower::new(&parse_policy(policy).unwrap(), stops.to_vec())
}

/// Drafts a round; `probs` is the distribution that follows a draft node, by its number.
pub(crate) fn draft(grower: &mut Grower, start: &RoundStart, probs: impl Fn(usize) -> Vec<f64>) -> Proposal {
    grower.begin_round(start);
    while let Some(frontier) = grower.frontier() {
        let candidates = frontier.iter().map(|&id| Candidates::from_probs(&probs(id), grower.width()).unwrap());
        let candidates: Vec<Candidates> = candidates.collect();
        grower.extend(&candidates).unwrap();
    }
    grower.finish()
}

/// Drafts one round under `policy` within [`LIMITS`].
pub(crate) fn draft_once(policy: &str, probs: impl Fn(usize) -> Vec<f64>) -> Proposal {
    draft(&mut grower(policy, &[]), &start(LIMITS), probs)
}

/// The mean length of the first chain under `policy`, over many positions, where a token always follows.
pub(crate) fn mean_length(policy: &str) -> f64 {
    const ROUNDS: u32 = 4000;
    let length = |position| {
        let start = RoundStart { position, ..start(Limits { max_nodes: 64, max_depth: 64 }) };
        draft(&mut grower(policy, &[]), &start, |_| vec![1.0]).tree.len()
    };
    (0..u64::from(ROUNDS)).map(length).sum::<usize>() as f64 / f64::from(ROUNDS)
}

/// Some distribution over `vocab` tokens, another for each node and seed.
pub(crate) fn random_probs(seed: u64, node: usize, vocab: u32) -> Vec<f64> {
    let noise = Gumbel::new(seed, node as u64);
    let weights: Vec<f64> = (0..vocab).map(|token| (2.0 * noise.at(token)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}
