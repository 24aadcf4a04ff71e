//! The model at work, on a thread of its own or on that of a sequence that is alone.
//!
//! [`Engine`] is the way in: it opens sequences as [`SequenceHandle`]s, which hand in
//! trees and free everything when dropped. What comes back, comes through the
//! channel given at the opening.

mod batch;
mod command;
mod gather;
mod known_states;
mod prompts;
mod round;
mod row_shares;
mod sequences;
mod tapped;
#[cfg(test)]
mod tests;
mod thread;
mod turn_rows;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use espalier_proto::{Open, SequenceId, Slots, Submission};
use espalier_service_kit::{Asker, Pulse, Seat};
use espalier_speculation::Restriction;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::command::{COMMANDS_PER_SEQUENCE, Command, Key, Opening, Replies, Submitted};
pub(crate) use self::command::{Loaded, REPLIES_MAX, ROUNDS_UNDER_WAY_MAX, Reply};
pub use self::gather::{Pass, Return};
pub use self::prompts::PromptTime;
pub use self::turn_rows::{TURN_ROWS_MAX, choose_prompts};
use crate::admission::{Admission, Slot};
use crate::counts::Counts;
use crate::error::VerifierError;

/// The way to the model.
#[derive(Debug)]
pub(crate) struct Engine {
    commands: mpsc::Sender<Command>,
    seat: Seat,
    admission: Admission,
    counts: Counts,
    next_key: AtomicU64,
    /// Why the model was lost, if it was.
    lost: Arc<OnceLock<String>>,
    pulse: Pulse,
    /// What a pass of [`ROWS_AMPLE`] rows takes where nothing else runs.
    largest_pass: Duration,
}

/// Rows of a pass that is larger than any.
const ROWS_AMPLE: usize = 1024;

impl Engine {
    /// Starts the thread; it ends when the engine and all handles are gone.
    pub(crate) fn start(model: Loaded, sequences_max: usize) -> io::Result<Self> {
        // Each sequence may be taken over while it is open.
        let (commands, queue) = mpsc::channel(2 * sequences_max * COMMANDS_PER_SEQUENCE);
        let counts = model.counts.clone();
        let lost = Arc::new(OnceLock::new());
        let [turn, largest_pass] =
            [1, ROWS_AMPLE].map(|rows| Duration::from_secs_f64(model.costs.at(rows).max(0.0) / 1e3));
        // A device may hang, and who looks for that must not hang with it.
        let on_processor = model.decoder.by_kernels().is_some();
        let pulse = Pulse::default();
        let seat = thread::start(model, queue, lost.clone(), pulse.clone())?;
        let seat = if on_processor { seat.open_for(turn) } else { seat };
        let admission = Admission::new(sequences_max);
        Ok(Self { commands, seat, admission, counts, next_key: AtomicU64::new(0), lost, pulse, largest_pass })
    }

    /// Admits a sequence, or refuses it at once.
    pub(crate) fn admit(&self, sequence: &SequenceId) -> Result<Slot, VerifierError> {
        self.admission.admit(sequence)
    }

    /// Opens a sequence that was admitted, its text held to a restriction if it is to be. Its answers go to `replies`,
    /// which has room for [`REPLIES_MAX`]; the first says that it is open.
    pub(crate) fn open(
        &self,
        open: Open,
        slot: Slot,
        restriction: Option<Box<dyn Restriction>>,
        replies: Replies,
    ) -> Result<SequenceHandle, VerifierError> {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        // Room to close is set aside first, so that closing never waits or fails.
        let closing = self.commands.clone().try_reserve_owned().map_err(|failure| refused(&failure))?;
        let opening = Opening { open, restriction, replies, slot };
        let (commands, asker, counts) = (self.commands.clone(), self.seat.asker(), self.counts.clone());
        let sequence = SequenceHandle { key, commands, asker, closing: Some(closing), next_round: 0, counts };
        sequence.send(Command::Open(key, Box::new(opening)))?;
        Ok(sequence)
    }

    /// What was done so far, and what waits.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Slots for sequences.
    pub(crate) fn slots(&self) -> Slots {
        self.admission.slots()
    }

    /// Why the thread has ended, if it has.
    pub(crate) fn fault(&self) -> Option<String> {
        let unknown = || "its thread has ended".to_owned();
        self.commands.is_closed().then(|| self.lost.get().cloned().unwrap_or_else(unknown))
    }

    /// Ready, with why, when a turn of the thread has no end.
    pub(crate) async fn stuck(&self) -> String {
        let took = self.pulse.stuck(self.largest_pass).await;
        format!("a pass has not ended after {took:?}")
    }

    /// How long the thread has been at its present turn.
    pub(crate) fn turn_age(&self) -> Duration {
        self.pulse.turn_age()
    }

    /// Ready when the thread has ended.
    pub(crate) async fn stopped(&self) {
        self.commands.closed().await;
    }
}

/// An open sequence; dropping it frees all that it holds.
#[derive(Debug)]
pub(crate) struct SequenceHandle {
    key: Key,
    commands: mpsc::Sender<Command>,
    asker: Asker,
    closing: Option<mpsc::OwnedPermit<Command>>,
    next_round: u64,
    counts: Counts,
}

impl SequenceHandle {
    /// Hands in the next rounds. At most [`ROUNDS_UNDER_WAY_MAX`] may wait for their outcomes. A tree of the only sequence may
    /// be verified meanwhile, until `is_told` of its outcome.
    pub(crate) fn submit(&mut self, submission: Submission, is_told: impl Fn() -> bool) -> Result<(), VerifierError> {
        let (expected, found) = (self.next_round, submission.round());
        if expected != found {
            return Err(VerifierError::RoundOrder { expected, found });
        }
        self.next_round += submission.rounds() as u64;
        let is_tree = matches!(submission, Submission::Tree(_));
        let waiting = is_tree.then(|| self.counts.waiting.enter());
        let place = self.commands.try_reserve().map_err(|failure| refused(&failure))?;
        let submitted = Submitted { submission, arrived: Instant::now(), waiting };
        let submit = || place.send(Command::Submit(self.key, submitted));
        match is_tree {
            true => self.asker.ask(submit, is_told),
            // Rounds on credit follow each other while those before them are told.
            false => submit(),
        }
        Ok(())
    }

    fn send(&self, command: Command) -> Result<(), VerifierError> {
        self.commands.try_send(command).map_err(|failure| refused(&failure))
    }
}

impl Drop for SequenceHandle {
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
