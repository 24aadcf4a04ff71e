//! What became of a sequence, and whether it may have.

use std::time::Duration;

use espalier_client::{Answer, ClientError};
use espalier_proto::{FaultKind, Party};

use super::fate::Fate;

/// How a sequence ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// With a text: that of plain decoding alone, or not.
    Finished { identical: bool, took: Duration },
    /// The client went away.
    Cancelled,
    /// Its deadline passed.
    Late,
    /// There was no room, and the client was told when to come again, or not.
    Refused { by: Party, after: Duration, hint: Option<Duration> },
    /// In no way that there should be.
    Failed(String),
}

impl Ending {
    /// What a call came to that took `took`; none if it was given up.
    pub(super) fn new(called: Option<Result<Answer, ClientError>>, expected: &[u32], took: Duration) -> Self {
        match called {
            None => Self::Cancelled,
            Some(Ok(answer)) => Self::Finished { identical: answer.ids() == expected, took },
            Some(Err(ClientError::Fault(fault))) if fault.kind == FaultKind::Late => Self::Late,
            Some(Err(ClientError::Fault(fault))) if fault.kind == FaultKind::Overloaded => {
                Self::Refused { by: fault.party, after: took, hint: fault.retry_after }
            }
            Some(Err(error)) => Self::Failed(espalier_service_kit::chain(&error).to_string()),
        }
    }

    /// What is wrong with a sequence of this fate that ended so.
    pub(super) fn objection(&self, fate: Fate) -> Option<String> {
        match (self, fate) {
            (Self::Finished { identical: false, .. }, _) => Some("another text than plain decoding's".to_owned()),
            (Self::Refused { hint: None, .. }, _) => Some("a refusal without a hint".to_owned()),
            (Self::Failed(why), _) => Some(why.clone()),
            (Self::Late, Fate::Patient | Fate::Cancelled(_)) => Some("late without a deadline".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use espalier_proto::Fault;

    use super::*;

    const TIME: Duration = Duration::from_millis(3);

    fn failed(kind: FaultKind, hint: Option<Duration>) -> Ending {
        let fault = Fault { retry_after: hint, ..Fault::new(Party::Gateway, kind, "words") };
        Ending::new(Some(Err(fault.into())), &[], TIME)
    }

    #[test]
    fn only_what_was_meant_to_end_early_may() {
        let refused = failed(FaultKind::Overloaded, Some(TIME));
        assert_eq!(refused, Ending::Refused { by: Party::Gateway, after: TIME, hint: Some(TIME) });
        for (ending, fate, proper) in [
            (refused, Fate::Patient, true),
            (failed(FaultKind::Overloaded, None), Fate::Patient, false),
            (failed(FaultKind::Late, None), Fate::Due(TIME), true),
            (failed(FaultKind::Late, None), Fate::Patient, false),
            (failed(FaultKind::Gone, None), Fate::Due(TIME), false),
            (Ending::new(None, &[], TIME), Fate::Cancelled(TIME), true),
            (Ending::Finished { identical: true, took: TIME }, Fate::Cancelled(TIME), true),
            (Ending::Finished { identical: false, took: TIME }, Fate::Patient, false),
        ] {
            assert_eq!(ending.objection(fate).is_none(), proper, "{ending:?} of {fate:?}");
        }
    }
}
