//! What a verifier is asked for after a sequence was opened.

use espalier_speculation::{Acceptance, TreeBounds};

use crate::common::{at_least_one, check_length, required, wire_count};
use crate::error::WireError;
use crate::numbered_tree::NumberedTree;
use crate::pb;
use crate::pb::verify_request::Message as Up;

/// Every further message of `Verify`.
#[derive(Debug, Clone, PartialEq)]
pub enum Submission {
    /// One round: a tree to verify.
    Tree(NumberedTree),
    /// Rounds of plain decoding.
    Credit(Credit),
}

/// Tokens that the target may decide by itself, each in a round of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// The number of the first of these rounds.
    pub round: u64,
    /// At least one, at most [`Credit::TOKENS_MAX`].
    pub tokens: usize,
    /// Whether the hidden states that are wanted wait for a later round, as nothing is drafted before that.
    pub states_later: bool,
}

impl Credit {
    /// The most tokens of one credit, and the most rounds of a sequence that may be under way.
    pub const TOKENS_MAX: usize = 64;

    fn read(wire: pb::Credit) -> Result<Self, WireError> {
        let tokens = at_least_one("credit.tokens", wire.tokens)?;
        check_length("credit.tokens", tokens, Self::TOKENS_MAX)?;
        Ok(Self { round: wire.round, tokens, states_later: wire.states_later })
    }
}

impl Submission {
    /// Reads a message that is not the first of its stream; `acceptance` is what the first one asked for.
    ///
    /// # Errors
    /// An `Open`, or anything that breaks a rule or a bound.
    pub fn read(wire: pb::VerifyRequest, bounds: &TreeBounds, acceptance: Acceptance) -> Result<Self, WireError> {
        match required("message", wire.message)? {
            Up::Tree(tree) => NumberedTree::read(tree, bounds, acceptance).map(Self::Tree),
            Up::Credit(credit) => Credit::read(credit).map(Self::Credit),
            Up::Open(_) => Err(WireError::Order { expected: "a tree or credit", found: "an open" }),
        }
    }

    /// The number of its first round.
    pub fn round(&self) -> u64 {
        match self {
            Self::Tree(tree) => tree.round,
            Self::Credit(credit) => credit.round,
        }
    }

    /// How many rounds it asks for.
    pub fn rounds(&self) -> usize {
        match self {
            Self::Tree(_) => 1,
            Self::Credit(credit) => credit.tokens,
        }
    }
}

impl From<&Submission> for pb::VerifyRequest {
    fn from(submission: &Submission) -> Self {
        let message = match submission {
            Submission::Tree(tree) => Up::Tree(tree.write()),
            Submission::Credit(Credit { round, tokens, states_later }) => {
                Up::Credit(pb::Credit { round: *round, tokens: wire_count(*tokens), states_later: *states_later })
            }
        };
        Self { message: Some(message) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_speculation::Tree;

    use super::*;

    const BOUNDS: TreeBounds = TreeBounds { vocab: 100, max_nodes: 4, max_depth: 4 };

    fn read(submission: &Submission) -> Result<Submission, WireError> {
        Submission::read(submission.into(), &BOUNDS, Acceptance::Coupled)
    }

    #[test]
    fn trees_and_credit_survive_the_wire() {
        let mut tree = Tree::new();
        tree.push(0, 7, 0.5).unwrap();
        for sent in [
            Submission::Tree(NumberedTree { round: 3, tree: tree.into() }),
            Submission::Credit(Credit { round: 4, tokens: 64, states_later: true }),
        ] {
            assert_eq!(read(&sent), Ok(sent));
        }
    }

    #[test]
    fn credit_is_for_one_token_at_least_and_bounded() {
        let refusal = |tokens| {
            read(&Submission::Credit(Credit { round: 0, tokens, states_later: false })).unwrap_err().to_string()
        };
        assert_eq!(refusal(0), "credit.tokens is 0, below the minimum of 1");
        assert_eq!(refusal(65), "credit.tokens is 65, beyond the limit of 64");
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let empty = pb::VerifyRequest { message: None };
        let refused = Submission::read(empty, &BOUNDS, Acceptance::Coupled);
        assert_eq!(refused, Err(WireError::Missing { field: "message" }));
    }
}
