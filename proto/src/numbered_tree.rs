//! Candidate trees on their way to a verifier, and the distributions that drawn ones come with.

use espalier_speculation::{Acceptance, CandidateTree, DRAFT_TOKENS_MAX, Distribution, DrawnTree, Tree, TreeBounds};

use crate::common::{check_length, check_tokens, wire_count};
use crate::error::WireError;
use crate::pb;

/// A round with a tree to verify.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedTree {
    /// Counts from 0 within a stream.
    pub round: u64,
    /// The candidates; none asks for a token of the target's own.
    pub tree: CandidateTree,
}

impl NumberedTree {
    /// Reads a tree for a sequence that is verified by `acceptance`.
    ///
    /// # Errors
    /// A tree that breaks a rule or a bound, or one that is not drawn where it must be or the other way round.
    pub(crate) fn read(
        wire: pb::CandidateTree,
        bounds: &TreeBounds,
        acceptance: Acceptance,
    ) -> Result<Self, WireError> {
        let tree = Tree::parse(bounds, &wire.tokens, &wire.parents, &wire.probs)?;
        let tree = match acceptance {
            Acceptance::Coupled => {
                check_length("drawn_from", wire.drawn_from.len(), 0)?;
                tree.into()
            }
            Acceptance::Rejection => read_drawn(tree, wire.drawn_from, bounds.vocab)?.into(),
        };
        Ok(Self { round: wire.round, tree })
    }

    /// The message that carries it.
    pub(crate) fn write(&self) -> pb::CandidateTree {
        let nodes = self.tree.tree().nodes();
        let drawn_from = match &self.tree {
            CandidateTree::Ranked(_) => Vec::new(),
            CandidateTree::Drawn(drawn) => drawn.distributions().map(|(node, q)| write_distribution(node, q)).collect(),
        };
        pb::CandidateTree {
            round: self.round,
            tokens: nodes.iter().map(|node| node.token).collect(),
            parents: nodes.iter().map(|node| wire_count(node.parent)).collect(),
            probs: nodes.iter().map(|node| node.prob).collect(),
            drawn_from,
        }
    }
}

fn write_distribution(node: usize, q: &Distribution) -> pb::DraftDistribution {
    let (tokens, probs) = q.tokens().iter().copied().unzip();
    pb::DraftDistribution { node: wire_count(node), tokens, probs }
}

fn read_drawn(tree: Tree, wire: Vec<pb::DraftDistribution>, vocab: usize) -> Result<DrawnTree, WireError> {
    check_length("drawn_from", wire.len(), tree.len() + 1)?;
    let mut q = vec![None; tree.len() + 1];
    for wire in wire {
        let node = wire.node as usize;
        check_length("drawn_from.node", node, tree.len())?;
        if q[node].replace(read_distribution(wire, vocab)?).is_some() {
            return Err(WireError::DrawnTwice { node });
        }
    }
    Ok(DrawnTree::new(tree, q)?)
}

fn read_distribution(wire: pb::DraftDistribution, vocab: usize) -> Result<Distribution, WireError> {
    let (node, tokens, probs) = (wire.node as usize, wire.tokens.len(), wire.probs.len());
    check_length("drawn_from.tokens", tokens, DRAFT_TOKENS_MAX)?;
    if tokens != probs {
        return Err(WireError::DrawnLengths { node, tokens, probs });
    }
    check_tokens("drawn_from", &wire.tokens, vocab)?;
    let pairs = wire.tokens.into_iter().zip(wire.probs).collect();
    Distribution::from_pairs(pairs).map_err(|fault| WireError::Distribution { node, fault })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const BOUNDS: TreeBounds = TreeBounds { vocab: 100, max_nodes: 4, max_depth: 4 };

    fn read(wire: pb::CandidateTree, acceptance: Acceptance) -> Result<NumberedTree, WireError> {
        NumberedTree::read(wire, &BOUNDS, acceptance)
    }

    /// The tree `10 (11) 12` below the root.
    fn tree() -> Tree {
        let mut tree = Tree::new();
        for (parent, token, prob) in [(0, 10, 0.5), (1, 11, 0.25), (0, 12, 0.125)] {
            tree.push(parent, token, prob).unwrap();
        }
        tree
    }

    fn distribution(pairs: &[(u32, f64)]) -> Option<Distribution> {
        Some(Distribution::from_pairs(pairs.to_vec()).unwrap())
    }

    fn drawn() -> CandidateTree {
        let root = distribution(&[(10, 0.5), (12, 0.25), (40, 0.25)]);
        let first = distribution(&[(11, 1.0)]);
        DrawnTree::new(tree(), vec![root, first, None, None]).unwrap().into()
    }

    /// The first round's.
    fn numbered(tree: CandidateTree) -> NumberedTree {
        NumberedTree { round: 0, tree }
    }

    #[test]
    fn a_tree_survives_the_wire() {
        for (tree, acceptance) in [
            (tree().into(), Acceptance::Coupled),
            (drawn(), Acceptance::Rejection),
            (DrawnTree::trunk(&Tree::new()).into(), Acceptance::Rejection),
        ] {
            let sent = NumberedTree { round: 9, tree };
            assert_eq!(read(sent.write(), acceptance), Ok(sent));
        }
    }

    #[test]
    fn a_tree_that_breaks_a_rule_is_refused() {
        let tree = pb::CandidateTree { tokens: vec![1], parents: vec![1], probs: vec![0.5], ..Default::default() };
        assert!(matches!(read(tree, Acceptance::Coupled), Err(WireError::Tree(_))));
    }

    /// Why the drawn tree is refused with these distributions instead of its own.
    fn refusal(drawn_from: Vec<pb::DraftDistribution>) -> String {
        let wire = pb::CandidateTree { drawn_from, ..numbered(drawn()).write() };
        read(wire, Acceptance::Rejection).unwrap_err().to_string()
    }

    fn from(node: u32, tokens: &[u32], probs: &[f64]) -> pb::DraftDistribution {
        pb::DraftDistribution { node, tokens: tokens.to_vec(), probs: probs.to_vec() }
    }

    #[test]
    fn what_nothing_can_have_been_drawn_from_is_refused() {
        let (root, first) = (from(0, &[10, 12], &[0.5, 0.5]), from(1, &[11], &[1.0]));
        let with = |first: pb::DraftDistribution| refusal(vec![root.clone(), first]);
        assert_eq!(refusal(vec![root.clone()]), "node 1 has children, but no draft distribution");
        assert_eq!(with(from(1, &[11], &[])), "the children of node 1 were drawn from 1 tokens with 0 probabilities");
        assert_eq!(
            with(from(1, &[11], &[0.5])),
            "the children of node 1 were not drawn from a distribution: the probabilities sum to 0.5, which is not within 0.000001 of 1"
        );
        assert_eq!(
            with(from(1, &[11, 12], &[2.0, -1.0])),
            "the children of node 1 were not drawn from a distribution: token 11 has probability 2, which is not between 0 and 1"
        );
        assert!(
            with(from(1, &[11], &[f64::NAN])).ends_with("token 11 has probability NaN, which is not between 0 and 1")
        );
        assert!(with(from(1, &[11, 11], &[0.5, 0.5])).ends_with("token 11 is given more than one probability"));
        assert_eq!(with(from(1, &[100], &[1.0])), "drawn_from holds token 100, beyond the vocabulary of 100");
        assert_eq!(
            with(from(1, &[9], &[1.0])),
            "node 2 carries token 11, to which its parent's draft distribution gives probability 0"
        );
        assert_eq!(with(root.clone()), "node 0 came with two draft distributions");
        assert_eq!(with(from(4, &[1], &[1.0])), "drawn_from.node is 4, beyond the limit of 3");
        let wide: Vec<u32> = (0..65).collect();
        assert_eq!(with(from(1, &wide, &[1.0; 65])), "drawn_from.tokens is 65, beyond the limit of 64");
        assert_eq!(refusal(vec![first; 5]), "drawn_from is 5, beyond the limit of 4");
    }

    #[test]
    fn a_tree_for_the_other_acceptance_is_refused() {
        let refusal = |tree, acceptance| read(numbered(tree).write(), acceptance).unwrap_err().to_string();
        assert_eq!(refusal(drawn(), Acceptance::Coupled), "drawn_from is 2, beyond the limit of 0");
        assert_eq!(refusal(tree().into(), Acceptance::Rejection), "node 0 has children, but no draft distribution");
    }

    /// Distributions of which most are some.
    fn any_distribution() -> impl Strategy<Value = pb::DraftDistribution> {
        let weights = prop::collection::vec((0_u32..110, 0.1_f64..1.0), 1..5);
        (0_u32..3, weights, prop_oneof![9 => Just(1.0), 1 => 0.5_f64..1.5]).prop_map(|(node, weights, slip)| {
            let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
            let (tokens, probs) = weights.iter().map(|(token, weight)| (token, slip * weight / sum)).unzip();
            pb::DraftDistribution { node, tokens, probs }
        })
    }

    proptest! {
        #[test]
        fn whatever_comes_is_a_tree_or_an_error(
            nodes in prop::collection::vec((0_u32..3, any::<prop::sample::Index>()), 0..3),
            drawn_from in prop::collection::vec(any_distribution(), 0..4),
        ) {
            // Nodes mostly carry tokens of the distributions.
            let known: Vec<u32> = drawn_from.iter().flat_map(|q| q.tokens.clone()).chain([7]).collect();
            let tree = pb::CandidateTree {
                round: 0,
                tokens: nodes.iter().map(|(_, token)| known[token.index(known.len())]).collect(),
                parents: nodes.iter().map(|&(parent, _)| parent).collect(),
                probs: vec![0.5; nodes.len()],
                drawn_from,
            };
            if let Ok(NumberedTree { tree, .. }) = read(tree, Acceptance::Rejection) {
                let CandidateTree::Drawn(drawn) = &tree else { panic!("{tree:?}") };
                for node in drawn.tree().nodes() {
                    prop_assert!(drawn.q(node.parent).unwrap().prob(node.token) > 0.0);
                }
                let again = read(numbered(tree.clone()).write(), Acceptance::Rejection).unwrap().tree;
                prop_assert_eq!(again, tree);
            }
        }
    }
}
