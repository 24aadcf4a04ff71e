//! The two ports of the round loop.

use std::future::Future;

use espalier_proto::{Fault, NumberedTree, Outcome};
use espalier_speculation::{CandidateTree, Tree};

use crate::sequence::Sequence;

/// A tree to be verified.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proposed {
    /// The candidates; none asks for tokens of the target's own. Where the sequence is verified by rejection they
    /// are drawn.
    pub tree: CandidateTree,
    /// Where there are no candidates: tokens of the target's own beyond one, at most [`NumberedTree::FURTHER_MAX`].
    pub further: usize,
    /// Whether the hidden states that are wanted may wait for a later outcome, as nothing is drafted before that.
    pub states_later: bool,
    /// Nodes drafted to get there, before any were dropped.
    pub drafted: usize,
}

impl Proposed {
    /// A tree that took no more drafting than its own nodes.
    pub fn whole(tree: impl Into<CandidateTree>) -> Self {
        let tree = tree.into();
        Self { drafted: tree.tree().len(), tree, ..Self::default() }
    }

    /// No tree, but `tokens` of the target's own, as far as one proposal may ask for so many; at least one.
    pub fn plain(tokens: usize) -> Self {
        Self { further: tokens.saturating_sub(1).min(NumberedTree::FURTHER_MAX), ..Self::default() }
    }
}

/// What became of a proposal.
#[derive(Debug, Clone, Copy)]
pub struct Feedback<'a> {
    /// The tree that was verified.
    pub tree: &'a Tree,
    /// What the target made of it.
    pub outcome: &'a Outcome,
}

/// Who grows the trees of one sequence.
pub trait Proposer: Send {
    /// How many rounds may be under way at once, at least 1. More than one only
    /// suits a proposer whose trees do not depend on outcomes still to come.
    fn lookahead(&self) -> usize {
        1
    }

    /// A tree below the sequence's last committed token. Paths as long as
    /// [`Sequence::remaining`] are of no use: the target adds a token itself.
    ///
    /// # Errors
    /// Whatever keeps the proposer from proposing; the sequence ends with it.
    fn propose(&mut self, sequence: &Sequence) -> impl Future<Output = Result<Proposed, Fault>> + Send;

    /// The trees under way were handed in, and nothing is asked before the next outcome: the proposer may get on with what
    /// it expects to be asked for then.
    fn go_ahead(&mut self, _sequence: &Sequence) {}

    /// Learns what became of a proposal; called once for each, in their order.
    ///
    /// # Errors
    /// Whatever keeps the proposer from following; the sequence ends with it.
    fn observe(&mut self, feedback: &Feedback<'_>) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// Who has the last word on the tokens of one sequence.
///
/// It is split in two so that several trees can be under way.
pub trait Verifier: Send {
    /// Hands in what is proposed for `round`; rounds count from 0 without gaps.
    ///
    /// # Errors
    /// The verifier cannot be reached, or refuses.
    fn submit(&mut self, round: u64, proposed: &Proposed) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The next outcome, in the order of the trees. Where hidden states were asked for, and may not wait, those of all
    /// positions before its last token have come with it and the outcomes before.
    ///
    /// # Errors
    /// The verifier cannot be reached, or refuses.
    fn outcome(&mut self) -> impl Future<Output = Result<Outcome, Fault>> + Send;
}
