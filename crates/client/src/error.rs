//! Why there is no answer.

use espalier_proto::{Fault, FaultKind, WireError};
use espalier_service_kit::ConnectError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The gateway, or a service behind it, refused or failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The gateway sent what makes no sense.
    #[error("the gateway answered with what makes no sense")]
    Wire(#[from] WireError),
    /// A name that cannot be sent.
    #[error("`{name}` cannot be the name of a client: it is not printable ASCII")]
    Name {
        /// The name as it was given.
        name: String,
    },
    /// The stream ended before the answer did.
    #[error("the answer ended before it was finished")]
    Cut,
}

impl ClientError {
    /// Whether the caller can mend it by asking otherwise, or someone else.
    pub fn is_of_the_request(&self) -> bool {
        match self {
            Self::Connect(_) => true,
            Self::Fault(fault) => {
                matches!(fault.kind, FaultKind::BadInput | FaultKind::Unauthenticated | FaultKind::PermissionDenied)
            }
            Self::Wire(_) | Self::Name { .. } | Self::Cut => false,
        }
    }
}
