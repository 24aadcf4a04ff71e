//! What a toy service has seen, and what it is to do wrong.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use espalier_proto::{Fault, FaultKind, Party, RoundCounts};
use espalier_speculation::ExitThresholds;
use tonic::Status;

/// What a service has seen, and when it is to fail.
#[derive(Default)]
pub struct Life {
    /// Streams that are open.
    pub open: AtomicUsize,
    /// Rounds that went through.
    pub rounds: AtomicUsize,
    /// Rounds after which the stream breaks, once; never if 0.
    pub breaks_after: AtomicUsize,
    /// The stream breaks after every so many rounds; never if 0.
    pub breaks_every: AtomicUsize,
    /// Sequences that were to be opened here, whatever came of it.
    pub tries: AtomicUsize,
    /// How often it was asked what it is.
    pub asked: AtomicUsize,
    /// Whether all that it does for sequences breaks off, though it says what it is.
    pub flaps: AtomicBool,
    /// Whether it does not say what it is.
    pub mute: AtomicBool,
    /// Whether a drafter does not reach the verifiers that it is told of.
    pub cut_off: AtomicBool,
    /// Whether sequences are refused for want of room.
    pub full: AtomicBool,
    /// Whether sequences fail of what is wrong with the service.
    pub broken: AtomicBool,
    /// Whether a verifier begins to send its tokenizer, and says no more.
    pub stalls: AtomicBool,
    /// The largest tree that a verifier takes; 64 nodes if 0.
    pub tree_nodes_max: AtomicUsize,
    /// The context that a verifier tells; the usual one if 0.
    pub context: AtomicUsize,
    /// Whether a verifier has one more token that ends a text.
    pub ends_more: AtomicBool,
    /// The revision of its arithmetic that a verifier tells.
    pub revision: AtomicU32,
    /// Whether the service never tells its status.
    pub silent: AtomicBool,
    /// The thresholds that the last sequence of a drafter came with.
    pub thresholds: Mutex<Option<ExitThresholds>>,
}

impl Life {
    /// Counts a round; an error if it is the one to fail at.
    pub(super) fn round(&self) -> Result<(), Status> {
        let round = 1 + self.rounds.fetch_add(1, Ordering::SeqCst);
        let every = self.breaks_every.load(Ordering::SeqCst);
        if round == self.breaks_after.load(Ordering::SeqCst) || (every > 0 && round.is_multiple_of(every)) {
            return Err(broken_off());
        }
        self.holds()
    }

    fn holds(&self) -> Result<(), Status> {
        if self.flaps.load(Ordering::SeqCst) { Err(broken_off()) } else { Ok(()) }
    }

    /// Says what it is, unless it is not to.
    pub(super) fn describe(&self) -> Result<(), Status> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.mute.load(Ordering::SeqCst) { Err(Status::unavailable("mute")) } else { Ok(()) }
    }

    /// Reaches a verifier, unless it is not to.
    pub(super) fn reach(&self) -> Result<(), Status> {
        match self.cut_off.load(Ordering::SeqCst) {
            true => Err(Fault::new(Party::Verifier, FaultKind::Gone, "cut off").into()),
            false => Ok(()),
        }
    }

    /// Refuses a sequence, if it is to.
    pub(super) fn admit(&self, party: Party) -> Result<(), Status> {
        self.tries.fetch_add(1, Ordering::SeqCst);
        self.holds()?;
        let faults = [(&self.full, FaultKind::Overloaded, "full"), (&self.broken, FaultKind::Internal, "broken")];
        match faults.into_iter().find(|(is_so, ..)| is_so.load(Ordering::SeqCst)) {
            Some((_, kind, what)) => Err(Fault::new(party, kind, what).into()),
            None => Ok(()),
        }
    }

    /// Ready when a status may be told.
    pub(super) async fn speaks(&self) {
        if self.silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn counts(&self) -> RoundCounts {
        RoundCounts { rounds: self.rounds() as u64, ..RoundCounts::default() }
    }

    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub fn rounds(&self) -> usize {
        self.rounds.load(Ordering::SeqCst)
    }

    pub fn tries(&self) -> usize {
        self.tries.load(Ordering::SeqCst)
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// What a client sees of a connection that is gone.
fn broken_off() -> Status {
    Status::unknown("h2 protocol error: connection reset")
}

/// Counts an open stream for as long as it lives.
pub(super) struct Guest(pub(super) Arc<Life>);

impl Guest {
    pub(super) fn new(life: &Arc<Life>) -> Self {
        life.open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(life))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}
