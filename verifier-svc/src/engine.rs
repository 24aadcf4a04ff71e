//! The model at work, on a thread of its own.
//!
//! [`Engine`] is the way in: it opens sequences as [`Session`]s, which hand in
//! trees and free everything when dropped. What comes back, comes through the
//! channel given at the opening.

mod batch;
mod known_states;
mod sequences;
#[cfg(test)]
mod tests;
mod thread;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use espalier_model::{BlockPool, Decoder, Workspace};
use espalier_proto::{NumberedTree, Open, Places, VerifierEvent};
use espalier_service_kit::Present;
use espalier_speculation::{Logprobs, Token};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::admission::{Admission, Place};
use crate::error::VerifierError;
use crate::status::Counts;

/// Trees of one sequence that may be under way at once.
pub(crate) const TREES_UNDER_WAY_MAX: usize = 8;

/// Answers that one sequence may be owed: the opening, each tree, and the end.
pub(crate) const REPLIES_MAX: usize = TREES_UNDER_WAY_MAX + 2;

/// Commands that one sequence may have waiting: its opening, its trees, its closing.
const COMMANDS_PER_SEQUENCE: usize = TREES_UNDER_WAY_MAX + 2;

/// What a session is told.
pub(crate) type Reply = Result<VerifierEvent, VerifierError>;

/// Where it is told.
pub(crate) type Replies = mpsc::Sender<Reply>;

/// Tells sessions apart; never used twice, and rising with age.
type Key = u64;

/// What the engine's thread is asked to do.
enum Command {
    Open(Key, Box<Opening>),
    Verify(Key, Job),
    Close(Key),
}

/// A sequence on its way in.
struct Opening {
    open: Open,
    replies: Replies,
    place: Place,
}

/// A tree on its way in.
struct Job {
    numbered: NumberedTree,
    /// When it arrived, or was last run.
    arrived: Instant,
    /// Counts it as waiting until it is answered or dropped.
    waiting: Present,
    /// Of the tokens that it asks for, those that were decided, and what that took.
    decided: Decided,
}

/// Tokens of the target's own that are still to be told.
#[derive(Default)]
struct Decided {
    tokens: Vec<Token>,
    logprobs: Vec<Logprobs>,
    compute: Duration,
    queue: Duration,
}

/// A model with all that it runs in.
pub(crate) struct Loaded {
    pub(crate) decoder: Arc<Decoder>,
    pub(crate) work: Workspace,
    /// For keys and values.
    pub(crate) blocks: BlockPool,
    /// The largest tree that is run, in nodes.
    pub(crate) tree_nodes_max: usize,
    pub(crate) counts: Counts,
}

/// The way to the model.
#[derive(Debug)]
pub(crate) struct Engine {
    commands: mpsc::Sender<Command>,
    admission: Admission,
    counts: Counts,
    next_key: AtomicU64,
}

impl Engine {
    /// Starts the thread; it ends when the engine and all sessions are gone.
    pub(crate) fn start(model: Loaded, sequences_max: usize) -> io::Result<Self> {
        let (commands, queue) = mpsc::channel(sequences_max * COMMANDS_PER_SEQUENCE);
        let counts = model.counts.clone();
        thread::start(model, queue)?;
        Ok(Self { commands, admission: Admission::new(sequences_max), counts, next_key: AtomicU64::new(0) })
    }

    /// Admits a sequence, or refuses it at once. Its answers go to `replies`,
    /// which has room for [`REPLIES_MAX`]; the first says that it is open.
    pub(crate) fn open(&self, open: Open, replies: Replies) -> Result<Session, VerifierError> {
        let place = self.admission.admit()?;
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        // Room to close is set aside first, so that closing never waits or fails.
        let closing = self.commands.clone().try_reserve_owned().map_err(|failure| refused(&failure))?;
        let opening = Opening { open, replies, place };
        let (commands, counts) = (self.commands.clone(), self.counts.clone());
        let session = Session { key, commands, closing: Some(closing), next_round: 0, counts };
        session.send(Command::Open(key, Box::new(opening)))?;
        Ok(session)
    }

    /// What was done so far, and what waits.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Places for sequences.
    pub(crate) fn places(&self) -> Places {
        self.admission.places()
    }

    /// Whether the thread has ended.
    pub(crate) fn has_stopped(&self) -> bool {
        self.commands.is_closed()
    }

    /// Ready when the thread has ended.
    pub(crate) async fn stopped(&self) {
        self.commands.closed().await;
    }
}

/// An open sequence; dropping it frees all that it holds.
#[derive(Debug)]
pub(crate) struct Session {
    key: Key,
    commands: mpsc::Sender<Command>,
    closing: Option<mpsc::OwnedPermit<Command>>,
    next_round: u64,
    counts: Counts,
}

impl Session {
    /// Hands in the next tree. At most [`TREES_UNDER_WAY_MAX`] may wait for their outcomes.
    pub(crate) fn submit(&mut self, numbered: NumberedTree) -> Result<(), VerifierError> {
        let (expected, found) = (self.next_round, numbered.round);
        if expected != found {
            return Err(VerifierError::RoundOrder { expected, found });
        }
        self.next_round += 1;
        let waiting = self.counts.waiting.enter();
        self.send(Command::Verify(
            self.key,
            Job { numbered, arrived: Instant::now(), waiting, decided: Decided::default() },
        ))
    }

    fn send(&self, command: Command) -> Result<(), VerifierError> {
        self.commands.try_send(command).map_err(|failure| refused(&failure))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(closing) = self.closing.take() {
            closing.send(Command::Close(self.key));
        }
    }
}

/// The queue has room for all that admitted sequences may send, so a full one
/// means that the thread does not keep up with closings.
fn refused<T>(failure: &mpsc::error::TrySendError<T>) -> VerifierError {
    match failure {
        mpsc::error::TrySendError::Full(_) => VerifierError::Busy,
        mpsc::error::TrySendError::Closed(_) => VerifierError::Stopped,
    }
}
