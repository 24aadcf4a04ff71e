//! What keeps a drafter from starting, and how its failures become faults: the one place.

use std::path::PathBuf;
use std::time::Duration;

use espalier_constraint::ConstraintError;
use espalier_model::{ModelError, PoolFault};
use espalier_proto::{Fault, FaultKind, Party, WireError};
use espalier_service_kit::{ConnectError, DeadlineError, FreeMemoryUnknown, ServeError};
use espalier_speculation::{
    CandidateError, DrawError, ExitError, GrowError, LogitsError, PolicyError, PruningPolicy, Token,
};
use espalier_text::TextError;

/// A predictor cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the predictor in {} cannot be used", folder.display())]
pub struct PredictorError {
    /// Its folder.
    pub folder: PathBuf,
    /// Why.
    pub source: PredictorFault,
}

/// Why a predictor was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictorFault {
    /// The folder holds none that can be loaded.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// It was trained with another drafter.
    #[error("it was trained with a drafter of fingerprint {found}, not {expected}")]
    OtherDrafter {
        /// The fingerprint of this drafter.
        expected: String,
        /// The fingerprint of the one that it was trained with.
        found: String,
    },
    /// It was trained with all layers of a drafter that is cut to some of them.
    #[error("it was trained with the whole drafter, which is cut to {layers} layers")]
    Cut {
        /// Layers in use.
        layers: usize,
    },
    /// Its drafter's states are not as wide as this drafter's.
    #[error("it reads drafter states of width {found}, not {expected}")]
    Width {
        /// The width of this drafter's states.
        expected: usize,
        /// The width that it reads.
        found: usize,
    },
    /// A sequence's states come from one layer of the target, and the drafter needs another.
    #[error("it reads the states after layer {found} of `{target}`, the drafter those after layer {expected}")]
    OtherLayer {
        /// The target's name.
        target: String,
        /// The layer that the drafter reads.
        expected: usize,
        /// The layer that the predictor reads.
        found: usize,
    },
    /// There is one for its target already.
    #[error("it is the second one for the target `{target}`")]
    Twice {
        /// The target's name.
        target: String,
    },
}

/// Why a drafter cannot start.
#[derive(Debug, thiserror::Error)]
pub enum DrafterError {
    /// The checkpoint cannot be loaded.
    #[error("the drafter's model cannot be loaded")]
    Model(#[from] ModelError),
    /// The tokenizer cannot be loaded.
    #[error("the drafter's tokenizer cannot be loaded")]
    Text(#[from] TextError),
    /// A predictor cannot be used.
    #[error(transparent)]
    Predictor(#[from] PredictorError),
    /// The thresholds do not suit the drafter's exits.
    #[error(transparent)]
    Exits(#[from] ExitError),
    /// A share of the free memory, and it is not known how much that is.
    #[error(transparent)]
    FreeMemory(#[from] FreeMemoryUnknown),
    /// The engine's thread cannot be started.
    #[error("the engine's thread cannot be started")]
    Thread(#[source] std::io::Error),
    /// The server failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The model cannot be used any more.
    #[error("drafter `{drafter}` was lost: {fault}")]
    Engine {
        /// The drafter.
        drafter: String,
        /// Why.
        fault: String,
    },
}

/// What can fail while a sequence is served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SequenceError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Pruning(#[from] PruningPolicy),
    #[error(transparent)]
    Exits(#[from] ExitError),
    #[error(transparent)]
    Deadline(#[from] DeadlineError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("all {limit} sequences are taken, or kept for other targets than `{target}`")]
    Full { limit: usize, target: String },
    #[error("{limit} verifiers are being asked what they are, which is the limit")]
    Asked { limit: usize },
    #[error(transparent)]
    Memory(#[from] PoolFault),
    #[error("this drafter sends no trees to {verifier}: verifiers may be on {allowed}")]
    NotAllowed { verifier: String, allowed: String },
    #[error("no start came before the call ended or {} seconds went by", limit.as_secs())]
    NoStart { limit: Duration },
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Logits(#[from] LogitsError),
    #[error(transparent)]
    Candidates(#[from] CandidateError),
    #[error(transparent)]
    Grow(#[from] GrowError),
    #[error(transparent)]
    Draw(#[from] DrawError),
    #[error("drafter `{drafter}` was made for `{made_for}` of fingerprint {expected}, not for `{target}` of {found}")]
    OtherTarget { drafter: String, made_for: String, expected: String, target: String, found: String },
    #[error("the verifier at {verifier} serves `{found}`, not `{expected}`")]
    Renamed { verifier: String, expected: String, found: String },
    #[error("the outcome of round {round} came with other hidden states than expected: {fault}")]
    States { round: u64, fault: WireError },
    #[error("token {token} is beyond the {vocab} tokens of the drafter")]
    Token { token: Token, vocab: usize },
    #[error("a draft level failed: {fault}")]
    Level { fault: String },
    #[error("the engine has stopped")]
    Stopped,
}

impl From<SequenceError> for Fault {
    fn from(error: SequenceError) -> Self {
        use SequenceError as E;
        let (party, kind) = match &error {
            E::Wire(_)
            | E::Policy(_)
            | E::Pruning(_)
            | E::Exits(_)
            | E::Deadline(_)
            | E::Connect(_)
            | E::NoStart { .. }
            | E::NotAllowed { .. }
            | E::OtherTarget { .. }
            | E::Constraint(_)
            | E::Memory(PoolFault::TooSmall { .. }) => (Party::Gateway, FaultKind::BadInput),
            E::States { .. } => (Party::Verifier, FaultKind::Internal),
            E::Renamed { .. } => (Party::Verifier, FaultKind::Gone),
            E::Full { .. } | E::Asked { .. } | E::Memory(PoolFault::Full { .. }) => {
                (Party::Drafter, FaultKind::Overloaded)
            }
            E::Stopped => (Party::Drafter, FaultKind::Gone),
            E::Token { .. }
            | E::Level { .. }
            | E::Model(_)
            | E::Logits(_)
            | E::Candidates(_)
            | E::Grow(_)
            | E::Draw(_)
            | E::Memory(PoolFault::Device) => (Party::Drafter, FaultKind::Internal),
        };
        let fault = Self::new(party, kind, &error);
        match kind {
            FaultKind::Overloaded => fault.retry_after(RETRY_AFTER),
            _ => fault,
        }
    }
}

/// When a refused sequence may try again.
const RETRY_AFTER: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_no_memory_is_told_when_to_come_back_unless_there_never_is_enough() {
        let full = Fault::from(SequenceError::from(PoolFault::Full { needed: 5, free: 1, total: 8 }));
        assert_eq!(
            (full.party, full.kind, full.retry_after),
            (Party::Drafter, FaultKind::Overloaded, Some(RETRY_AFTER))
        );
        assert_eq!(full.message, "5 blocks of KV memory are needed, but 1 of 8 are free");
        let small = Fault::from(SequenceError::from(PoolFault::TooSmall { needed: 9, total: 8 }));
        assert_eq!((small.kind, small.retry_after), (FaultKind::BadInput, None));
    }
}
