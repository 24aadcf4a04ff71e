//! Proposers that need no model.

use espalier_proto::Fault;
use espalier_speculation::{
    Acceptance, DrawnTree, NgramLimits, Restriction, Token, Tree, hang_forced, keep_allowed, propose_ngram,
};

use crate::ports::Proposer;
use crate::sequence::{Feedback, Proposed, Sequence};

/// Plain decoding: nothing is ever drafted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Proposer for Plain {
    fn rests(&mut self) -> bool {
        true
    }

    async fn propose(&mut self, _: &Sequence) -> Result<Proposed, Fault> {
        Ok(Proposed::Plain)
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
///
/// By rejection it proposes a chain only: a guess is a draw from a distribution that has nothing else, so a second guess
/// at the same place could not have been drawn.
#[derive(Debug)]
pub struct Ngram {
    stops: Vec<Token>,
    limits: NgramLimits,
    acceptance: Acceptance,
    nodes: usize,
    /// What the text is held to, if it is.
    restriction: Option<Box<dyn Restriction>>,
    /// Nodes of the largest tree that the verifier takes.
    tree_nodes_max: usize,
}

impl Ngram {
    /// Proposals within `limits` that nothing follows after one of `stops`, for a sequence verified by `acceptance`.
    pub fn new(stops: Vec<Token>, limits: NgramLimits, acceptance: Acceptance) -> Self {
        Self { stops, limits, acceptance, nodes: NODES_MIN, restriction: None, tree_nodes_max: limits.max_nodes }
    }

    /// The same for a text that is held to a restriction, which knows of what was generated: guesses that it does not
    /// allow are left out, and what must follow is proposed too, in trees of `tree_nodes_max` nodes at most.
    pub fn restricted(self, restriction: Option<Box<dyn Restriction>>, tree_nodes_max: usize) -> Self {
        Self { restriction, tree_nodes_max, ..self }
    }

    /// What the restriction makes of guesses.
    fn held(&mut self, guesses: Tree, max_depth: usize) -> Tree {
        let Some(restriction) = &mut self.restriction else { return guesses };
        let mut tree = keep_allowed(&guesses, &mut **restriction);
        hang_forced(&mut tree, self.tree_nodes_max, max_depth, |path, most| restriction.forced(path, most));
        tree
    }
}

impl Proposer for Ngram {
    async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
        let max_nodes = self.limits.max_nodes.min(self.nodes);
        let max_depth = self.limits.max_depth.min(sequence.remaining().saturating_sub(1));
        let limits = NgramLimits { max_nodes, max_depth, ..self.limits };
        let guesses = propose_ngram(sequence.committed(), &self.stops, &limits);
        let guesses = self.held(guesses, sequence.remaining().saturating_sub(1));
        Ok(match self.acceptance {
            _ if guesses.is_empty() => Proposed::Plain,
            Acceptance::Coupled => Proposed::whole(guesses),
            Acceptance::Rejection => Proposed::whole(DrawnTree::trunk(&guesses)),
        })
    }

    async fn observe(&mut self, feedback: &Feedback<'_>) -> Result<(), Fault> {
        if let Some(restriction) = &mut self.restriction {
            restriction.push(&feedback.outcome.tokens);
        }
        let depth = feedback.proposed.tree().map_or(0, |tree| tree.tree().depth());
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
    use espalier_speculation::{CandidateTree, PassLoad};

    use super::*;

    #[tokio::test]
    async fn what_followed_before_is_proposed_again() {
        let sequence = Sequence::new(vec![7, 8, 9, 1, 7], 10);
        let proposed = ngram(Acceptance::Coupled).propose(&sequence).await.unwrap();
        assert_eq!(tokens_of(&proposed), [8, 9]);
    }

    fn ngram(acceptance: Acceptance) -> Ngram {
        Ngram::new(vec![], NgramLimits::default(), acceptance)
    }

    #[tokio::test]
    async fn by_rejection_the_likeliest_continuation_is_proposed_alone() {
        // After 7 came 8 twice and 9 once, the last time.
        let sequence = Sequence::new(vec![7, 8, 1, 7, 8, 2, 7, 9, 3, 7], 10);
        let ranked = ngram(Acceptance::Coupled).propose(&sequence).await.unwrap();
        assert_eq!(ranked.tree().unwrap().tree().nodes().iter().filter(|node| node.depth == 1).count(), 2);
        let drawn = ngram(Acceptance::Rejection).propose(&sequence).await.unwrap();
        let Some(CandidateTree::Drawn(drawn)) = drawn.tree() else { panic!("{drawn:?}") };
        assert_eq!(drawn.tree().nodes().iter().map(|node| (node.parent, node.token)).collect::<Vec<_>>(), [(0, 8)]);
        assert!(drawn.distributions().all(|(_, q)| q.tokens().len() == 1));
    }

    fn tokens_of(proposed: &Proposed) -> Vec<Token> {
        proposed.tree().unwrap().tree().nodes().iter().map(|node| node.token).collect()
    }

    fn accepting(path: Vec<usize>) -> Outcome {
        let [compute, queue, prompts] = [Duration::ZERO; 3];
        let (load, tokens, logprobs) = (PassLoad::default(), vec![], vec![]);
        Outcome { round: 0, path, tokens, logprobs, finish: None, compute, queue, load, prompts, states: None }
    }

    #[tokio::test]
    async fn proposals_grow_while_they_are_accepted_whole_and_shrink_when_not() {
        let sequence = Sequence::new((0..40).chain([0]).collect(), 100);
        let mut ngram = ngram(Acceptance::Coupled);
        for (expected, accepted) in [(2, 2), (5, 5), (8, 8), (11, 11), (11, 4), (8, 0), (5, 0), (2, 0), (2, 2), (5, 0)]
        {
            let proposed = ngram.propose(&sequence).await.unwrap();
            assert_eq!(tokens_of(&proposed), (1..=expected).collect::<Vec<Token>>());
            let outcome = accepting((1..=accepted).collect());
            let feedback =
                Feedback { proposed: &proposed, outcome: &outcome, draft: Duration::ZERO, took: Duration::ZERO };
            ngram.observe(&feedback).await.unwrap();
        }
    }

    #[tokio::test]
    async fn nothing_is_proposed_where_one_token_may_follow() {
        let sequence = Sequence::new(vec![7, 8, 9, 1, 7], 1);
        let proposed = ngram(Acceptance::Coupled).propose(&sequence).await.unwrap();
        assert_eq!(proposed, Proposed::Plain);
    }
}
