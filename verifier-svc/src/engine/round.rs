//! A round on its way through a pass: what it asks, what the pass found, and what was decided.

use std::time::Duration;

use espalier_model::Output;
use espalier_proto::Credit;
use espalier_service_kit::Present;
use espalier_speculation::{
    Acceptance, CandidateTree, DrawnTree, FinishReason, LogitsError, Logprobs, PassLoad, Token, Tree,
};
use tokio::time::Instant;

/// What a pass found for the rows of one sequence.
pub(super) struct Found<'a> {
    pub(super) output: &'a Output<'a>,
    pub(super) segment: usize,
    /// The tap at which its hidden states are, if they are wanted.
    pub(super) tap: Option<usize>,
}

impl<'a> Found<'a> {
    /// The logits of a node of the tree, or of its root.
    pub(super) fn logits(&self, node: usize) -> &'a [f32] {
        self.output.logits(self.segment, node)
    }

    /// The target's decision at a node, if that was told in place of logits.
    pub(super) fn decision(&self, node: usize) -> Option<Result<Token, LogitsError>> {
        self.output.decision(self.segment, node)
    }

    /// The hidden state of a row, if it is wanted.
    pub(super) fn state(&self, row: usize) -> Option<&'a [f32]> {
        Some(self.output.tap(self.tap?, self.segment, row))
    }
}

/// When a pass began, how long it waited for those of other models and computed, for how many and beside what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    pub(super) begun: Instant,
    pub(super) waited: Duration,
    pub(super) compute: Duration,
    pub(super) load: PassLoad,
    /// Time that this pass and all before it spent on prompts.
    pub(super) prompts: Duration,
}

/// A round that could be run.
pub(super) struct WaitingRound {
    /// Since when.
    pub(super) since: Instant,
    /// Those of its tree and of the root.
    pub(super) rows: usize,
}

/// A round on its way through a pass.
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) tree: CandidateTree,
    pub(super) states_later: bool,
    /// When it could have been run first.
    pub(super) ready: Instant,
    pub(super) _waiting: Option<Present>,
}

impl Round {
    /// One token of `credit`, which is used up.
    pub(super) fn plain(credit: &mut Credit, acceptance: Acceptance, ready: Instant) -> Self {
        let tree = match acceptance {
            Acceptance::Coupled => CandidateTree::default(),
            Acceptance::Rejection => DrawnTree::trunk(&Tree::new()).into(),
        };
        let round = Self { number: credit.round, tree, states_later: credit.states_later, ready, _waiting: None };
        (credit.round, credit.tokens) = (credit.round + 1, credit.tokens.saturating_sub(1));
        round
    }
}

/// What the target made of a tree.
pub(super) struct Decision {
    pub(super) path: Vec<usize>,
    pub(super) tokens: Vec<Token>,
    pub(super) logprobs: Vec<Logprobs>,
    pub(super) finish: Option<FinishReason>,
}
