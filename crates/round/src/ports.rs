//! The two ports of the round loop.

use std::future::Future;

use espalier_proto::{Fault, Outcome, Submission};

use crate::sequence::{Feedback, Proposed, Sequence};

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
