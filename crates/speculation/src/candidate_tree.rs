//! What a round sends to the verifier, and how it is accepted.

use crate::accept::{AcceptError, Walk, accept, accept_drawn};
use crate::{DrawnTree, Sampler, Tree};

/// A tree to be verified. Either way an empty one asks for one token of the target's own.
#[derive(Debug, Clone, PartialEq)]
pub enum CandidateTree {
    /// Guesses at the target's decisions, for greedy and coupled acceptance.
    Ranked(Tree),
    /// Tokens that were drawn, for rejection acceptance.
    Drawn(DrawnTree),
}

impl CandidateTree {
    /// The nodes.
    pub fn tree(&self) -> &Tree {
        match self {
            Self::Ranked(tree) => tree,
            Self::Drawn(drawn) => drawn.tree(),
        }
    }

    /// Keeps the first `nodes` nodes only.
    pub fn truncate(&mut self, nodes: usize) {
        match self {
            Self::Ranked(tree) => tree.truncate(nodes),
            Self::Drawn(drawn) => drawn.truncate(nodes),
        }
    }

    /// Verifies the tree against the target's logits, by the target's decisions or, where it was drawn, by rejection.
    /// `sampler` holds the request's parameters and the text up to the root, and is left as it was.
    ///
    /// `logits(node)` gives the target's logits at a node (0 is the root); only nodes on the accepted path are asked for.
    ///
    /// # Errors
    /// Logits that allow no decision: empty, NaN, plus infinity, or all minus infinity.
    pub fn accept<'a>(
        &self,
        sampler: &mut Sampler,
        logits: impl FnMut(usize) -> &'a [f32],
    ) -> Result<Walk, AcceptError> {
        match self {
            Self::Ranked(tree) => Ok(accept(tree, sampler, logits)?),
            Self::Drawn(drawn) => accept_drawn(drawn, sampler, logits),
        }
    }
}

impl Default for CandidateTree {
    fn default() -> Self {
        Self::Ranked(Tree::new())
    }
}

impl From<Tree> for CandidateTree {
    fn from(tree: Tree) -> Self {
        Self::Ranked(tree)
    }
}

impl From<DrawnTree> for CandidateTree {
    fn from(drawn: DrawnTree) -> Self {
        Self::Drawn(drawn)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Acceptance, Distribution, LogitsError, Penalties, Sampling, Shaping, Side, Token};

    const PROMPT: [Token; 3] = [1, 1, 1];

    fn sampler(sampling: Sampling) -> Sampler {
        Sampler::new(sampling.with_acceptance(Acceptance::Rejection), &PROMPT, &[])
    }

    fn neutral(seed: u64) -> Sampling {
        Sampling::new(1.0, 0, 1.0, seed).unwrap()
    }

    /// The chain 0, 1, each drawn from a distribution that has nothing else.
    fn certain_chain() -> CandidateTree {
        let mut tree = Tree::new();
        let first = tree.push(0, 0, 1.0).unwrap();
        tree.push(first, 1, 1.0).unwrap();
        DrawnTree::trunk(&tree).into()
    }

    #[test]
    fn drawn_and_ranked_trees_lose_their_last_nodes_alike() {
        let mut ranked = CandidateTree::from(certain_chain().tree().clone());
        let mut drawn = certain_chain();
        for nodes in [5, 1, 0] {
            ranked.truncate(nodes);
            drawn.truncate(nodes);
            assert_eq!(ranked.tree(), drawn.tree());
            assert_eq!(drawn.tree().len(), nodes.min(2));
        }
    }

    #[test]
    fn a_node_of_a_drawn_tree_is_tried_with_the_history_of_its_own_path() {
        // What was said has lost almost all of its weight the next time.
        let penalties = Penalties { presence: 2.0, frequency: 2.0, ..Penalties::NONE };
        let shaping = Shaping::new(penalties, []).unwrap();
        let (mut accepted, logits) = ([0; 3], [1.0, 0.0]);
        for seed in 0..1000 {
            let walk = certain_chain().accept(&mut sampler(neutral(seed).with_shaping(shaping.clone())), |_| &logits);
            accepted[walk.unwrap().path.len()] += 1;
        }
        // At the root token 0 has e / (e + 1); below it, where it was said, token 1 has 1 / (1 + e^-3).
        assert!((240..300).contains(&accepted[0]), "{accepted:?}");
        assert!((20..60).contains(&accepted[1]), "{accepted:?}");
    }

    #[test]
    fn an_empty_drawn_tree_draws_from_the_target_with_the_verifier_s_own_draws() {
        let plain = CandidateTree::from(DrawnTree::trunk(&Tree::new()));
        let logits: Vec<f32> = (0..8).map(|token| token as f32 / 4.0).collect();
        for seed in 0..50 {
            let mut sampler = sampler(neutral(seed));
            let u = sampler.uniforms(Side::Verification).next().unwrap();
            let p = sampler.distribution(&logits, &[]).unwrap();
            let walk = plain.accept(&mut sampler, |_| &logits).unwrap();
            assert_eq!(walk, Walk { path: vec![], bonus: p.at(u) });
        }
    }

    #[test]
    fn a_certain_guess_survives_as_often_as_the_target_says_it() {
        const ROUNDS: u64 = 20_000;
        let logits = [0.2_f32, 0.5, 0.3].map(f32::ln);
        let p = Distribution::from_probs(&[0.2, 0.5, 0.3]).unwrap();
        let mut counts = [0_u32; 3];
        for seed in 0..ROUNDS {
            let walk = certain_chain().accept(&mut sampler(neutral(seed)), |_| &logits).unwrap();
            let first = if walk.path.is_empty() { walk.bonus } else { 0 };
            counts[first as usize] += 1;
        }
        for (count, &(token, prob)) in counts.iter().zip(p.tokens()) {
            let found = f64::from(*count) / ROUNDS as f64;
            assert!((found - prob).abs() < 0.012, "token {token}: {found}");
        }
    }

    #[test]
    fn logits_that_decide_nothing_are_an_error() {
        let error = certain_chain().accept(&mut sampler(neutral(0)), |_| &[f32::NAN]);
        assert_eq!(error, Err(AcceptError::Logits(LogitsError::NotFinite { token: 0 })));
    }
}
