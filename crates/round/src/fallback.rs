//! Proposers that need no model.

use espalier_proto::Fault;
use espalier_speculation::{NgramLimits, Token, propose_ngram};

use crate::ports::{Feedback, Proposed, Proposer};
use crate::sequence::Sequence;

/// Rounds under way at once in plain decoding: enough that the verifier always
/// finds the next one waiting, so that no token pays for a network round trip.
const PLAIN_LOOKAHEAD: usize = 4;

/// Plain decoding: every tree is empty, and so depends on no outcome.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Proposer for Plain {
    fn lookahead(&self) -> usize {
        PLAIN_LOOKAHEAD
    }

    async fn propose(&mut self, _: &Sequence) -> Result<Proposed, Fault> {
        Ok(Proposed::default())
    }

    async fn observe(&mut self, _: &Feedback<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

/// Nodes proposed at least, and at first.
const NODES_MIN: usize = 2;

/// Nodes by which proposals grow after one that was accepted to its end, and shrink after any other: a text that
/// repeats itself does so for a while, and one that does not should not be charged for guesses.
const NODES_STEP: usize = 3;

/// Proposes what followed the end of the text when it last occurred, the more of it the better that went lately.
#[derive(Debug, Clone)]
pub struct Ngram {
    stops: Vec<Token>,
    limits: NgramLimits,
    nodes: usize,
}

impl Ngram {
    /// Proposals within `limits` that nothing follows after one of `stops`.
    pub fn new(stops: Vec<Token>, limits: NgramLimits) -> Self {
        Self { stops, limits, nodes: NODES_MIN }
    }
}

impl Proposer for Ngram {
    async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
        let max_nodes = self.limits.max_nodes.min(self.nodes);
        let max_depth = self.limits.max_depth.min(sequence.remaining().saturating_sub(1));
        let limits = NgramLimits { max_nodes, max_depth, ..self.limits };
        Ok(Proposed::whole(propose_ngram(sequence.committed(), &self.stops, &limits)))
    }

    async fn observe(&mut self, feedback: &Feedback<'_>) -> Result<(), Fault> {
        let depth = feedback.tree.depth();
        if depth > 0 {
            let whole = feedback.outcome.accepted() == depth;
            let nodes = if whole { self.nodes + NODES_STEP } else { self.nodes.saturating_sub(NODES_STEP) };
            self.nodes = nodes.clamp(NODES_MIN, self.limits.max_nodes.max(NODES_MIN));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use espalier_proto::Outcome;
    use espalier_speculation::Tree;

    use super::*;

    #[tokio::test]
    async fn what_followed_before_is_proposed_again() {
        let sequence = Sequence::new(vec![7, 8, 9, 1, 7], 10);
        let tree = Ngram::new(vec![], NgramLimits::default()).propose(&sequence).await.unwrap().tree;
        assert_eq!(tokens_of(&tree), [8, 9]);
    }

    fn tokens_of(tree: &Tree) -> Vec<Token> {
        tree.nodes().iter().map(|node| node.token).collect()
    }

    fn accepting(path: Vec<usize>) -> Outcome {
        let (compute, queue) = (Duration::ZERO, Duration::ZERO);
        Outcome { round: 0, path, tokens: vec![], logprobs: vec![], finish: None, compute, queue }
    }

    #[tokio::test]
    async fn proposals_grow_while_they_are_accepted_whole_and_shrink_when_not() {
        let sequence = Sequence::new((0..40).chain([0]).collect(), 100);
        let mut ngram = Ngram::new(vec![], NgramLimits::default());
        for (expected, accepted) in [(2, 2), (5, 5), (8, 8), (11, 11), (11, 4), (8, 0), (5, 0), (2, 0), (2, 2), (5, 0)]
        {
            let tree = ngram.propose(&sequence).await.unwrap().tree;
            assert_eq!(tokens_of(&tree), (1..=expected).collect::<Vec<Token>>());
            let outcome = accepting((1..=accepted).collect());
            let feedback = Feedback { tree: &tree, outcome: &outcome, round_trip: Duration::ZERO };
            ngram.observe(&feedback).await.unwrap();
        }
    }

    #[tokio::test]
    async fn nothing_is_proposed_where_one_token_may_follow() {
        let sequence = Sequence::new(vec![7, 8, 9, 1, 7], 1);
        let proposed = Ngram::new(vec![], NgramLimits::default()).propose(&sequence).await.unwrap();
        assert_eq!(proposed, Proposed::default());
    }
}
