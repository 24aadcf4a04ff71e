//! A sequence as the round loop sees it: what is committed, what is proposed below it, and what becomes of that.

use std::time::Duration;

use espalier_proto::{DraftedTree, Fault, FaultKind, Outcome, Party};
use espalier_speculation::{CandidateTree, FinishReason, Token};

use crate::growth::Growth;

/// What a proposer wants of the target next.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposed {
    /// One round: a tree to be verified. Where the sequence is verified by rejection its tokens are drawn.
    Tree {
        /// The candidates; none asks for a token of the target's own.
        tree: CandidateTree,
        /// Nodes drafted to get there, before any were dropped.
        drafted: usize,
        /// How it was grown, where that is to be told.
        growth: Option<Box<Growth>>,
    },
    /// One round without candidates: plain decoding.
    Plain,
}

impl Proposed {
    /// A tree that took no more drafting than its own nodes.
    pub fn whole(tree: impl Into<CandidateTree>) -> Self {
        let tree = tree.into();
        Self::Tree { drafted: tree.tree().len(), tree, growth: None }
    }

    /// The candidates, if there are any.
    pub fn tree(&self) -> Option<&CandidateTree> {
        match self {
            Self::Tree { tree, .. } => Some(tree),
            Self::Plain => None,
        }
    }

    /// All that was drafted and what became of it; none without candidates.
    pub(crate) fn told(&self, outcome: &Outcome) -> Option<DraftedTree> {
        match self {
            Self::Tree { growth: Some(growth), .. } => Some(growth.told(outcome)),
            Self::Tree { tree, .. } => Some(Growth::whole(tree.tree()).told(outcome)),
            Self::Plain => None,
        }
    }

    /// Nodes drafted to get there, before any were dropped.
    pub fn drafted(&self) -> usize {
        match self {
            Self::Tree { drafted, .. } => *drafted,
            Self::Plain => 0,
        }
    }
}

/// What became of a round.
#[derive(Debug, Clone, Copy)]
pub struct Feedback<'a> {
    /// What was proposed.
    pub proposed: &'a Proposed,
    /// What the target made of it.
    pub outcome: &'a Outcome,
    /// Time that the proposer took.
    pub draft: Duration,
    /// Time since the outcome before it, or since the run began, in which the sequence could go on: what it waited for
    /// permission is not counted.
    pub took: Duration,
}

impl Feedback<'_> {
    /// Whether this was the first round of a run, in which prompts are read.
    pub fn is_first(&self) -> bool {
        self.outcome.round == 0
    }
}

/// The committed tokens of a sequence, and how it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    committed: Vec<Token>,
    remaining: usize,
    rounds: u64,
    finish: Option<FinishReason>,
}

impl Sequence {
    /// A sequence that starts from `committed` and may grow by `max_tokens`.
    pub fn new(committed: Vec<Token>, max_tokens: usize) -> Self {
        let finish = (max_tokens == 0).then_some(FinishReason::Length);
        Self { committed, remaining: max_tokens, rounds: 0, finish }
    }

    /// Prompt and everything emitted since.
    pub fn committed(&self) -> &[Token] {
        &self.committed
    }

    /// How many tokens may still follow.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Rounds that were committed, which is the number of the next one.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Why the sequence is over, if it is.
    pub fn finish(&self) -> Option<FinishReason> {
        self.finish
    }

    /// Commits what the target made of what was `proposed`.
    ///
    /// # Errors
    /// An outcome that cannot be one of it, in this round: nothing is
    /// committed, and the verifier is to blame.
    pub fn commit(&mut self, proposed: &Proposed, outcome: &Outcome) -> Result<(), Fault> {
        self.check(proposed, outcome).map_err(|what| Fault::new(Party::Verifier, FaultKind::Internal, what))?;
        self.committed.extend_from_slice(&outcome.tokens);
        self.remaining -= outcome.tokens.len();
        self.rounds += 1;
        self.finish = outcome.finish;
        Ok(())
    }

    fn check(&self, proposed: &Proposed, outcome: &Outcome) -> Result<(), String> {
        if outcome.round != self.rounds {
            return Err(format!("the outcome of round {} came for round {}", outcome.round, self.rounds));
        }
        let count = outcome.tokens.len();
        if count == 0 || count > self.remaining {
            return Err(format!("an outcome of {count} tokens came where 1 to {} may follow", self.remaining));
        }
        if count == self.remaining && outcome.finish.is_none() {
            return Err(format!("the last {count} tokens came without an end"));
        }
        check_path(proposed, outcome)
    }
}

/// The path must lead down from the root, its tokens must come first, and those
/// of the target's own must follow unless the sequence ended before them.
fn check_path(proposed: &Proposed, outcome: &Outcome) -> Result<(), String> {
    let (nodes, tokens) = (outcome.path.len(), outcome.tokens.len());
    if tokens != nodes + 1 && (outcome.finish.is_none() || tokens != nodes) {
        return Err(format!("an outcome accepts {nodes} nodes and commits {tokens} tokens"));
    }
    let mut above = 0;
    for (&id, &token) in outcome.path.iter().zip(&outcome.tokens) {
        let node = proposed.tree().and_then(|tree| tree.tree().node(id));
        if node.is_none_or(|node| node.parent != above || node.token != token) {
            return Err(format!(
                "an outcome accepts node {id} with token {token} below node {above}, which is not in the tree"
            ));
        }
        above = id;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_speculation::{PassLoad, Tree};

    use super::*;

    fn proposed() -> Proposed {
        let mut tree = Tree::new();
        let first = tree.push(0, 10, 0.5).unwrap();
        tree.push(first, 11, 0.5).unwrap();
        tree.push(0, 12, 0.25).unwrap();
        Proposed::whole(tree)
    }

    fn outcome() -> Outcome {
        Outcome {
            round: 0,
            path: vec![1, 2],
            tokens: vec![10, 11, 99],
            logprobs: vec![],
            finish: None,
            compute: Duration::ZERO,
            queue: Duration::ZERO,
            load: PassLoad::default(),
            prompts: Duration::ZERO,
            states: None,
        }
    }

    #[test]
    fn an_outcome_is_committed() {
        let mut sequence = Sequence::new(vec![1], 5);
        sequence.commit(&proposed(), &outcome()).unwrap();
        assert_eq!(sequence.committed(), [1, 10, 11, 99]);
        assert_eq!((sequence.remaining(), sequence.rounds(), sequence.finish()), (2, 1, None));
    }

    #[test]
    fn an_end_may_cut_the_target_s_own_token() {
        let mut sequence = Sequence::new(vec![1], 2);
        let end = Outcome { tokens: vec![10, 11], finish: Some(FinishReason::Length), ..outcome() };
        sequence.commit(&proposed(), &end).unwrap();
        assert_eq!((sequence.remaining(), sequence.finish()), (0, Some(FinishReason::Length)));
    }

    #[test]
    fn a_round_of_plain_decoding_brings_one_token_and_no_path() {
        let apply = |path: &[usize], tokens: &[Token]| {
            let outcome = Outcome { path: path.to_vec(), tokens: tokens.to_vec(), ..outcome() };
            Sequence::new(vec![1], 5).commit(&Proposed::Plain, &outcome)
        };
        assert_eq!(apply(&[], &[7]), Ok(()));
        assert!(apply(&[], &[7, 8]).is_err() && apply(&[1], &[10, 8]).is_err());
    }

    #[test]
    fn nothing_is_committed_of_an_impossible_outcome() {
        let impossible = [
            Outcome { round: 1, ..outcome() },
            Outcome { path: vec![], tokens: vec![], ..outcome() },
            Outcome { path: vec![2], tokens: vec![11, 99], ..outcome() },
            Outcome { path: vec![1, 3], tokens: vec![10, 12, 99], ..outcome() },
            Outcome { path: vec![7], tokens: vec![10, 99], ..outcome() },
            Outcome { path: vec![1], tokens: vec![12, 99], ..outcome() },
            Outcome { path: vec![1], tokens: vec![10, 11, 12], ..outcome() },
            Outcome { tokens: vec![10, 11], ..outcome() },
        ];
        for outcome in impossible {
            let mut sequence = Sequence::new(vec![1], 5);
            let fault = sequence.commit(&proposed(), &outcome).unwrap_err();
            assert_eq!((fault.party, fault.kind), (Party::Verifier, FaultKind::Internal));
            assert_eq!(sequence, Sequence::new(vec![1], 5));
        }
    }

    #[test]
    fn the_token_limit_holds() {
        let mut sequence = Sequence::new(vec![1], 2);
        let fault = sequence.commit(&proposed(), &outcome()).unwrap_err();
        assert_eq!(fault.message, "an outcome of 3 tokens came where 1 to 2 may follow");
        let mut sequence = Sequence::new(vec![1], 3);
        let fault = sequence.commit(&proposed(), &outcome()).unwrap_err();
        assert_eq!(fault.message, "the last 3 tokens came without an end");
    }

    #[test]
    fn without_room_a_sequence_is_over_before_it_begins() {
        assert_eq!(Sequence::new(vec![1], 0).finish(), Some(FinishReason::Length));
    }
}
