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

/// Proposes what followed the end of the text when it last occurred.
#[derive(Debug, Clone)]
pub struct Ngram {
    stops: Vec<Token>,
    limits: NgramLimits,
}

impl Ngram {
    /// Proposals within `limits` that nothing follows after one of `stops`.
    pub fn new(stops: Vec<Token>, limits: NgramLimits) -> Self {
        Self { stops, limits }
    }
}

impl Proposer for Ngram {
    async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
        let max_depth = self.limits.max_depth.min(sequence.remaining().saturating_sub(1));
        let limits = NgramLimits { max_depth, ..self.limits };
        Ok(Proposed::whole(propose_ngram(sequence.committed(), &self.stops, &limits)))
    }

    async fn observe(&mut self, _: &Feedback<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn what_followed_before_is_proposed_again() {
        let sequence = Sequence::new(vec![7, 8, 9, 1, 7], 10);
        let tree = Ngram::new(vec![], NgramLimits::default()).propose(&sequence).await.unwrap().tree;
        let tokens: Vec<Token> = tree.nodes().iter().map(|node| node.token).collect();
        assert_eq!(tokens[..3], [8, 9, 1]);
    }

    #[tokio::test]
    async fn nothing_is_proposed_where_one_token_may_follow() {
        let sequence = Sequence::new(vec![7, 8, 9, 1, 7], 1);
        let proposed = Ngram::new(vec![], NgramLimits::default()).propose(&sequence).await.unwrap();
        assert_eq!(proposed, Proposed::default());
    }
}
