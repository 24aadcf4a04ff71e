//! What the tests of growing share: a drafter made of a function.

use crate::{Candidates, Costs, Grower, Limits, Proposal, RoundStart, Token, parse_policy};

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
