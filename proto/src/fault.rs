//! How a failure travels from service to service.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status, TimeoutExpired};

/// Names the party at fault in a status's metadata.
const PARTY_KEY: &str = "espalier-party";

/// When to try again, in milliseconds, in a status's metadata.
const RETRY_AFTER_KEY: &str = "retry-after-ms";

/// Names the part of a request that is wrong in a status's metadata.
const FIELD_KEY: &str = "espalier-field";

/// The only part of a request that is named there.
const CONSTRAINT: &str = "constraint";

/// Who is to blame for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Party {
    /// Whoever sent the request.
    Client,
    /// The gateway.
    Gateway,
    /// A drafter.
    Drafter,
    /// A verifier.
    Verifier,
}

impl Party {
    const ALL: [Self; 4] = [Self::Client, Self::Gateway, Self::Drafter, Self::Verifier];

    /// The name that travels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Drafter => "drafter",
            Self::Verifier => "verifier",
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What sort of failure it is, which decides what may be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The request itself is wrong; it will fail again.
    BadInput,
    /// Who asks has not shown a key that is known here.
    Unauthenticated,
    /// Who asks may not have this.
    PermissionDenied,
    /// There is no room at present; a later try may find some.
    Overloaded,
    /// The sequence is not known here (any more); open it again with its full prefix.
    LostSequence,
    /// The party cannot be reached, or was lost; another may serve.
    Gone,
    /// The deadline has passed.
    Late,
    /// Whoever asked does not want the answer any more.
    Cancelled,
    /// An invariant is broken.
    Internal,
}

impl FaultKind {
    const ALL: [(Self, Code); 9] = [
        (Self::BadInput, Code::InvalidArgument),
        (Self::Unauthenticated, Code::Unauthenticated),
        (Self::PermissionDenied, Code::PermissionDenied),
        (Self::Overloaded, Code::ResourceExhausted),
        (Self::LostSequence, Code::FailedPrecondition),
        (Self::Gone, Code::Unavailable),
        (Self::Late, Code::DeadlineExceeded),
        (Self::Cancelled, Code::Cancelled),
        (Self::Internal, Code::Internal),
    ];

    /// The status code that stands for it.
    pub fn code(self) -> Code {
        Self::ALL.into_iter().find_map(|(kind, code)| (kind == self).then_some(code)).unwrap_or(Code::Internal)
    }

    fn from_code(code: Code) -> Self {
        Self::ALL.into_iter().find_map(|(kind, known)| (known == code).then_some(kind)).unwrap_or(Self::Internal)
    }
}

/// A failure, who caused it, and what sort it is.
///
/// As a [`Status`] it keeps all of that, so that a verifier's failure is still a
/// verifier's when it reaches the gateway through a drafter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{party}: {message}")]
pub struct Fault {
    /// Who is to blame.
    pub party: Party,
    /// What sort of failure it is.
    pub kind: FaultKind,
    /// What was wrong and with which value, in one sentence.
    pub message: String,
    /// When a further try may succeed, if that is known.
    pub retry_after: Option<Duration>,
    /// Whether it is the request's constraint that is wrong.
    pub in_constraint: bool,
}

impl Fault {
    /// A failure without a hint when to try again.
    pub fn new(party: Party, kind: FaultKind, message: impl fmt::Display) -> Self {
        Self { party, kind, message: message.to_string(), retry_after: None, in_constraint: false }
    }

    /// The same failure, with a hint when to try again.
    #[must_use]
    pub fn retry_after(self, pause: Duration) -> Self {
        Self { retry_after: Some(pause), ..self }
    }

    /// The same failure, of the request's constraint.
    #[must_use]
    pub fn in_constraint(self) -> Self {
        Self { in_constraint: true, ..self }
    }

    /// Reads what a call to `peer` ended with.
    ///
    /// A status that no service of ours made was made by the transport: then
    /// `peer` is gone, unless the code says that time or patience ran out.
    pub fn from_status(peer: Party, status: &Status) -> Self {
        match read_party(status.metadata()) {
            Some(party) => Self {
                party,
                kind: FaultKind::from_code(status.code()),
                message: status.message().to_owned(),
                retry_after: read_retry_after(status.metadata()),
                in_constraint: status.metadata().get(FIELD_KEY).is_some_and(|field| field == CONSTRAINT),
            },
            None => Self::from_transport(peer, status),
        }
    }

    /// Reads why no further message comes from `peer`, who calls.
    ///
    /// What cannot be read as a message was sent by `peer`, who is not gone.
    pub fn from_caller(peer: Party, status: &Status) -> Self {
        let unreadable = matches!(status.code(), Code::Internal | Code::OutOfRange | Code::Unimplemented);
        match read_party(status.metadata()) {
            None if unreadable => Self::new(peer, FaultKind::BadInput, status.message()),
            _ => Self::from_status(peer, status),
        }
    }

    fn from_transport(peer: Party, status: &Status) -> Self {
        // A status that a peer sent has no source. One that has was made here, of the error that ended the connection; its
        // code is only what gRPC calls that error: `RESOURCE_EXHAUSTED` for HTTP/2's ENHANCE_YOUR_CALM, say.
        let ended = status.source().is_some();
        match status.code() {
            // The caller's own time, which ran out before the peer answered: that peer may be well.
            Code::Cancelled if status.message() == TimeoutExpired(()).to_string() => {
                Self::new(peer, FaultKind::Late, "the request's deadline has passed")
            }
            code if ended || matches!(code, Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled) => {
                let what = format_args!("the {peer} is not reached: {}", status.message());
                Self::new(peer, FaultKind::Gone, what)
            }
            code => Self::new(peer, FaultKind::from_code(code), status.message()),
        }
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        let mut metadata = MetadataMap::new();
        if let Ok(party) = fault.party.name().parse() {
            metadata.insert(PARTY_KEY, party);
        }
        if let Some(pause) = fault.retry_after {
            let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            metadata.insert(RETRY_AFTER_KEY, pause_ms.into());
        }
        if fault.in_constraint {
            metadata.insert(FIELD_KEY, MetadataValue::from_static(CONSTRAINT));
        }
        Self::with_metadata(fault.kind.code(), fault.message, metadata)
    }
}

fn read_party(metadata: &MetadataMap) -> Option<Party> {
    let name = metadata.get(PARTY_KEY)?.to_str().ok()?;
    Party::ALL.into_iter().find(|party| party.name() == name)
}

fn read_retry_after(metadata: &MetadataMap) -> Option<Duration> {
    let pause_ms = metadata.get(RETRY_AFTER_KEY)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_millis(pause_ms))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_fault_survives_its_way_through_another_service() {
        for party in Party::ALL {
            for (kind, _) in FaultKind::ALL {
                let fault = Fault::new(party, kind, "the engine holds 8 sequences, its limit is 8")
                    .retry_after(Duration::from_millis(250));
                let status = Status::from(fault.clone());
                assert_eq!(Fault::from_status(Party::Drafter, &status), fault);
            }
        }
    }

    #[test]
    fn each_kind_has_a_code_of_its_own() {
        for (kind, code) in FaultKind::ALL {
            assert_eq!(kind.code(), code);
            assert_eq!(FaultKind::from_code(code), kind);
        }
    }

    #[test]
    fn a_status_that_the_transport_made_means_that_the_peer_is_gone() {
        for code in [Code::Unavailable, Code::Unknown, Code::Internal, Code::Cancelled] {
            let fault = Fault::from_status(Party::Verifier, &Status::new(code, "connection reset"));
            assert_eq!((fault.party, fault.kind), (Party::Verifier, FaultKind::Gone));
            assert_eq!(fault.message, "the verifier is not reached: connection reset");
        }
        // What a proxy between us and the peer may say; and, with a source, what gRPC calls HTTP/2's ENHANCE_YOUR_CALM.
        let mut ended = Status::resource_exhausted("h2 protocol error");
        assert_eq!(Fault::from_status(Party::Verifier, &ended).kind, FaultKind::Overloaded);
        ended.set_source(Arc::new(std::io::Error::other("too many resets")));
        assert_eq!(Fault::from_status(Party::Verifier, &ended).kind, FaultKind::Gone);
    }

    #[test]
    fn who_sends_what_cannot_be_read_is_not_gone() {
        for code in [Code::Internal, Code::OutOfRange, Code::Unimplemented] {
            let fault = Fault::from_caller(Party::Gateway, &Status::new(code, "failed to decode"));
            assert_eq!((fault.party, fault.kind), (Party::Gateway, FaultKind::BadInput));
            assert_eq!(fault.message, "failed to decode");
        }
        let fault = Fault::from_caller(Party::Gateway, &Status::cancelled("reset"));
        assert_eq!(fault.kind, FaultKind::Gone);
    }

    #[test]
    fn time_that_ran_out_is_not_a_lost_peer() {
        let expired = Status::from_error(TimeoutExpired(()).into());
        for late in [Status::deadline_exceeded("late"), expired] {
            assert_eq!(Fault::from_status(Party::Verifier, &late).kind, FaultKind::Late);
        }
    }

    #[test]
    fn a_code_that_no_service_of_ours_uses_is_internal() {
        let fault = Fault::from_status(Party::Drafter, &Status::unimplemented("Speculate"));
        assert_eq!(fault.kind, FaultKind::Internal);
    }
}
