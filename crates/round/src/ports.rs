//! The two ports of the round loop.

use std::future::Future;
use std::time::Duration;

use espalier_proto::{Fault, Outcome, Submission};
use espalier_speculation::CandidateTree;

use crate::sequence::Sequence;

/// What a proposer wants of the target next.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposed {
    /// One round: a tree to be verified. Where the sequence is verified by rejection its tokens are drawn.
    Tree {
        /// The candidates; none asks for a token of the target's own.
        tree: CandidateTree,
        /// Nodes drafted to get there, before any were dropped.
        drafted: usize,
    },
    /// One round without candidates: plain decoding.
    Plain,
}

impl Proposed {
    /// A tree that took no more drafting than its own nodes.
    pub fn whole(tree: impl Into<CandidateTree>) -> Self {
        let tree = tree.into();
        Self::Tree { drafted: tree.tree().len(), tree }
    }

    /// The candidates, if there are any.
    pub fn tree(&self) -> Option<&CandidateTree> {
        match self {
            Self::Tree { tree, .. } => Some(tree),
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
    /// Time since the outcome before it, in which the sequence could go on: what it waited for permission is not counted.
    /// None for the first round, which waits for the prompt to be read.
    pub took: Option<Duration>,
}

/// Who grows the trees of one sequence.
pub trait Proposer: Send {
    /// Whether the target may go on by itself, whatever comes of the rounds under way: then it is given credit, and
    /// [`Self::propose`] is not asked.
    fn rests(&mut self) -> bool {
        false
    }

    /// What to do below the sequence's last committed token; asked when no round is under way. Paths as long as
    /// [`Sequence::remaining`] are of no use: the target adds a token itself.
    ///
    /// # Errors
    /// Whatever keeps the proposer from proposing; the sequence ends with it.
    fn propose(&mut self, sequence: &Sequence) -> impl Future<Output = Result<Proposed, Fault>> + Send;

    /// Learns what became of a round; called once for each, in their order.
    ///
    /// # Errors
    /// Whatever keeps the proposer from following; the sequence ends with it.
    fn observe(&mut self, feedback: &Feedback<'_>) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// Who has the last word on the tokens of one sequence.
///
/// It is split in two so that several rounds can be under way.
pub trait Verifier: Send {
    /// Hands in the next rounds; they count from 0 without gaps.
    ///
    /// # Errors
    /// The verifier cannot be reached, or refuses.
    fn submit(&mut self, submission: Submission) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The outcome of the next round. Where hidden states were asked for, and may not wait, those of all positions before
    /// its last token have come with it and the outcomes before.
    ///
    /// # Errors
    /// The verifier cannot be reached, or refuses.
    fn outcome(&mut self) -> impl Future<Output = Result<Outcome, Fault>> + Send;
}
