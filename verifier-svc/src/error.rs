//! Why a verifier refuses or fails, and what its callers are told.

use std::time::Duration;

use espalier_constraint::ConstraintError;
use espalier_model::{ModelError, PoolFault};
use espalier_proto::{Fault, FaultKind, Party, SequenceId, WireError};
use espalier_service_kit::ServeError;
use espalier_speculation::{AcceptError, LogitsError};
use thiserror::Error;
use tonic::Status;

/// When a refused sequence may be opened again.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Why a verifier stopped serving before it was asked to.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The server failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The model cannot be used any more.
    #[error("target `{target}` was lost: {fault}")]
    Engine {
        /// The target.
        target: String,
        /// Why.
        fault: String,
    },
}

/// Why a verifier refuses or fails.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum VerifierError {
    /// A message breaks a rule.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The stream ended, or said nothing for too long, before it said what it is about.
    #[error("no sequence was opened")]
    NothingOpened,
    /// The sequence has asked for nothing for too long.
    #[error("nothing was asked for in {} seconds, so the sequence lost its slot", limit.as_secs())]
    Idle {
        /// How long a sequence may ask for nothing.
        limit: Duration,
    },
    /// There is no room for another sequence.
    #[error("{limit} sequences are being verified, which is the limit")]
    Full {
        /// Sequences that may be open at once.
        limit: usize,
    },
    /// There is not enough memory for the keys and values of another sequence.
    #[error(transparent)]
    Memory(#[from] PoolFault),
    /// The text cannot be held to what it is to be held to.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// The engine has more to do than it can take note of.
    #[error("the engine's queue is full")]
    Busy,
    /// More rounds were asked for than may be under way.
    #[error("more than {limit} rounds of a sequence would be under way")]
    UnderWay {
        /// Rounds of a sequence that may be under way at once.
        limit: usize,
    },
    /// A round came again, or one was left out.
    #[error("round {found} came where round {expected} is next")]
    RoundOrder {
        /// The round that is next.
        expected: u64,
        /// The round that came.
        found: u64,
    },
    /// Another stream has opened the same sequence.
    #[error("sequence {sequence} was opened again by another stream")]
    TakenOver {
        /// The sequence.
        sequence: SequenceId,
    },
    /// The model could not run.
    #[error("the model failed: {fault}")]
    Model {
        /// What the model said.
        fault: String,
    },
    /// Nothing can be accepted: the model's logits decide nothing.
    #[error("the model decided nothing: {0}")]
    Accept(#[from] AcceptError),
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Stopped,
}

impl From<ModelError> for VerifierError {
    fn from(error: ModelError) -> Self {
        Self::Model { fault: error.to_string() }
    }
}

impl VerifierError {
    fn kind(&self) -> FaultKind {
        match self {
            _ if self.is_of_constraint() => FaultKind::BadInput,
            Self::Wire(_)
            | Self::NothingOpened
            | Self::UnderWay { .. }
            | Self::RoundOrder { .. }
            | Self::Memory(PoolFault::TooSmall { .. }) => FaultKind::BadInput,
            Self::Full { .. } | Self::Busy | Self::Memory(PoolFault::Full { .. }) => FaultKind::Overloaded,
            Self::TakenOver { .. } | Self::Idle { .. } => FaultKind::LostSequence,
            Self::Stopped => FaultKind::Gone,
            Self::Model { .. } | Self::Accept(_) | Self::Constraint(_) | Self::Memory(PoolFault::Device) => {
                FaultKind::Internal
            }
        }
    }

    fn is_of_constraint(&self) -> bool {
        matches!(self, Self::Constraint(_) | Self::Accept(AcceptError::Logits(LogitsError::Restriction(_))))
    }

    fn party(&self) -> Party {
        match self.kind() {
            FaultKind::BadInput => Party::Client,
            _ => Party::Verifier,
        }
    }
}

impl From<VerifierError> for Fault {
    fn from(error: VerifierError) -> Self {
        let fault = Self::new(error.party(), error.kind(), &error);
        let fault = if error.is_of_constraint() { fault.in_constraint() } else { fault };
        match fault.kind {
            FaultKind::Overloaded => fault.retry_after(RETRY_AFTER),
            _ => fault,
        }
    }
}

impl From<VerifierError> for Status {
    fn from(error: VerifierError) -> Self {
        Fault::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn each_error_has_its_status_and_its_words() {
        let taken = VerifierError::TakenOver { sequence: SequenceId::from(7) };
        let cases = [
            (WireError::Missing { field: "prompt" }.into(), Code::InvalidArgument, "prompt is missing"),
            (
                VerifierError::RoundOrder { expected: 3, found: 2 },
                Code::InvalidArgument,
                "round 2 came where round 3 is next",
            ),
            (
                VerifierError::Full { limit: 8 },
                Code::ResourceExhausted,
                "8 sequences are being verified, which is the limit",
            ),
            (
                PoolFault::Full { needed: 9, free: 2, total: 16 }.into(),
                Code::ResourceExhausted,
                "9 blocks of KV memory are needed, but 2 of 16 are free",
            ),
            (
                PoolFault::TooSmall { needed: 17, total: 16 }.into(),
                Code::InvalidArgument,
                "17 blocks of KV memory are needed, but there are only 16",
            ),
            (
                taken,
                Code::FailedPrecondition,
                "sequence 00000000000000000000000000000007 was opened again by another stream",
            ),
            (VerifierError::Stopped, Code::Unavailable, "the engine has stopped"),
            (VerifierError::Model { fault: "no".to_owned() }, Code::Internal, "the model failed: no"),
        ];
        for (error, code, words) in cases {
            let status = Status::from(error);
            assert_eq!((status.code(), status.message()), (code, words));
        }
    }

    #[test]
    fn who_finds_no_room_is_told_when_to_come_back() {
        for full in [VerifierError::Full { limit: 8 }, PoolFault::Full { needed: 9, free: 2, total: 16 }.into()] {
            assert_eq!(Fault::from(full).retry_after, Some(RETRY_AFTER));
        }
    }
}
