//! What the engine is asked to do, and what it works with.

use std::sync::Arc;

use espalier_model::{BlockPool, Decoder, Workspace};
use espalier_proto::{Credit, Open, Submission, VerifierEvent};
use espalier_service_kit::{Present, Workplace};
use espalier_speculation::{Curve, Restriction};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::admission::Slot;
use crate::counts::Counts;
use crate::error::VerifierError;

/// Rounds of one sequence that may be under way at once: trees, and tokens that it has credit for.
pub(crate) const ROUNDS_UNDER_WAY_MAX: usize = Credit::TOKENS_MAX;

/// Answers that one sequence may be owed: the opening, each round, and the end.
pub(crate) const REPLIES_MAX: usize = ROUNDS_UNDER_WAY_MAX + 2;

/// Commands that one sequence may have waiting: its opening, what it submits, its closing.
pub(super) const COMMANDS_PER_SEQUENCE: usize = ROUNDS_UNDER_WAY_MAX + 2;

/// What a sequence is told.
pub(crate) type Reply = Result<VerifierEvent, VerifierError>;

/// Where it is told.
pub(crate) type Replies = mpsc::Sender<Reply>;

/// Tells sequences apart; never used twice, and rising with age.
pub(super) type Key = u64;

/// What the engine is asked to do.
pub(super) enum Command {
    Open(Key, Box<Opening>),
    Submit(Key, Submitted),
    Close(Key),
}

/// A sequence on its way in.
pub(super) struct Opening {
    pub(super) open: Open,
    /// What its text is held to, with what was generated already.
    pub(super) restriction: Option<Box<dyn Restriction>>,
    pub(super) replies: Replies,
    pub(super) slot: Slot,
}

/// What a sequence submitted, on its way in.
pub(super) struct Submitted {
    pub(super) submission: Submission,
    pub(super) arrived: Instant,
    /// Counts a tree as waiting until it is answered or dropped.
    pub(super) waiting: Option<Present>,
}

/// A model with all that it runs in.
pub(crate) struct Loaded {
    pub(crate) decoder: Arc<Decoder>,
    pub(crate) work: Workspace,
    /// Cost of a pass by its rows, in milliseconds.
    pub(crate) costs: Curve,
    /// For keys and values.
    pub(crate) blocks: BlockPool,
    /// The largest tree that is run, in nodes.
    pub(crate) tree_nodes_max: usize,
    pub(crate) counts: Counts,
    /// Where it takes its turns.
    pub(crate) workplace: Workplace,
}
