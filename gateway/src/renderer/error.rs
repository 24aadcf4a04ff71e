//! Why a conversation has no prompt.

use std::io;
use std::time::Duration;

use espalier_proto::{Fault, FaultKind, Party};
use espalier_text::TextError;
use thiserror::Error;

/// Memory that a process may take beyond what it begins with.
pub(super) const MEMORY_MIB_MAX: u64 = 512;

/// When a template that others wait for may be free again.
const BUSY_AFTER: Duration = Duration::from_secs(1);

/// Why a conversation could not be put into the target's chat template.
#[derive(Debug, Error)]
pub enum RenderError {
    /// The template refuses it, fails on it, or is none.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The process that rendered it ended.
    #[error("the target's chat template took more than {MEMORY_MIB_MAX} MiB, or its values were too deep")]
    Ended,
    /// It took too long.
    #[error("the target's chat template took more than {} s", limit.as_secs())]
    Late {
        /// How long it may take.
        limit: Duration,
    },
    /// Others take too long.
    #[error("the target's chat template was busy with other conversations for {} s", limit.as_secs())]
    Busy {
        /// How long it was waited for.
        limit: Duration,
    },
    /// There is no process that renders.
    #[error("no process that renders chat templates can be started: {fault}")]
    Start {
        /// Why not.
        fault: io::Error,
    },
}

impl From<RenderError> for Fault {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::Start { .. } => Self::new(Party::Gateway, FaultKind::Internal, error),
            RenderError::Busy { .. } => Self::new(Party::Gateway, FaultKind::Overloaded, error).retry_after(BUSY_AFTER),
            // Template and conversation do not go together: the same would come of another try.
            RenderError::Text(_) | RenderError::Ended | RenderError::Late { .. } => {
                Self::new(Party::Client, FaultKind::BadInput, error)
            }
        }
    }
}
