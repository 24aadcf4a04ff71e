//! Why a request is refused or fails, and what the client is told.

use std::time::Duration;

use espalier_constraint::ConstraintError;
use espalier_proto::{Fault, FaultKind, Party, WireError};
use espalier_service_kit::DeadlineError;
use espalier_speculation::{ConstraintKind, PolicyError, PruningPolicy, Token};
use espalier_text::TextError;
use thiserror::Error;
use tonic::Status;

use crate::admission::{ClientNameError, Reason, Refusal};
use crate::call_form::CallFormError;
use crate::caps::CapError;
use crate::health::RETRY_INTERVAL;
use crate::keys::KeyError;
use crate::known::Known;
use crate::renderer::RenderError;
use crate::session::SessionError;

/// When a further survey may find room: about when those under way have ended.
const SURVEY_AFTER: Duration = Duration::from_millis(500);

/// A rule that a request breaks.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A field breaks a rule of its own.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The deadline cannot be understood.
    #[error(transparent)]
    Deadline(#[from] DeadlineError),
    /// The session's name is none.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The client's name is none.
    #[error(transparent)]
    ClientName(#[from] ClientNameError),
    /// The policy is none.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// It asks for more of drafting than it may.
    #[error(transparent)]
    Cap(#[from] CapError),
    /// The policy cannot be combined with rejection.
    #[error(transparent)]
    Pruning(#[from] PruningPolicy),
    /// The answer cannot be held to what it is to be held to.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// The answer is to be held to one thing and may call tools.
    #[error("an answer that may call tools is held to the form of calls, and cannot be held to a {kind} besides")]
    ToolsAndConstraint {
        /// The other thing.
        kind: ConstraintKind,
    },
    /// The answer cannot call tools.
    #[error(transparent)]
    CallForm(#[from] CallFormError),
    /// The prompt cannot be tokenized.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The prompt cannot be put into the chat template.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// No target of this name has been heard of.
    #[error("unknown target `{found}`; known targets are {known}")]
    UnknownTarget {
        /// The target that was asked for.
        found: String,
        /// Those there are.
        known: Known,
    },
    /// No such drafter has been heard of.
    #[error("unknown drafter `{found}`; known drafters are {known}")]
    UnknownDrafter {
        /// The drafter that was asked for.
        found: String,
        /// Those there are.
        known: Known,
    },
    /// Drafter and target do not speak of the same tokens.
    #[error("drafter `{drafter}` and target `{target}` have different tokenizers")]
    Tokenizers {
        /// The drafter that was asked for.
        drafter: String,
        /// The target that was asked for.
        target: String,
    },
    /// The drafter was made for another target.
    #[error("drafter `{drafter}` was made for `{made_for}` of fingerprint {expected}, not for `{target}` of {found}")]
    OtherTarget {
        /// The drafter that was asked for.
        drafter: String,
        /// The name of the target it was made for.
        made_for: String,
        /// The fingerprint of that target's model.
        expected: String,
        /// The target that was asked for.
        target: String,
        /// The fingerprint of its model.
        found: String,
    },
    /// The drafter cannot follow so long a text.
    #[error("prompt and answer have {needed} tokens, but the context of drafter `{drafter}` is {context}")]
    DrafterContext {
        /// The drafter that was asked for.
        drafter: String,
        /// Tokens of prompt and answer.
        needed: usize,
        /// Tokens that it can follow.
        context: usize,
    },
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt leaves no room for an answer.
    #[error("the prompt has {tokens} tokens, but the context of `{target}` is {context} tokens, answer included")]
    LongPrompt {
        /// Tokens of the prompt.
        tokens: usize,
        /// The target that was asked for.
        target: String,
        /// Tokens that fit.
        context: usize,
    },
    /// The prompt's text is longer than any that fits.
    #[error(
        "the prompt has {bytes} bytes, but the context of `{target}` is {context} tokens of {longest} bytes at most: {limit}"
    )]
    LongText {
        /// Bytes of its text.
        bytes: usize,
        /// The target that was asked for.
        target: String,
        /// Tokens that fit.
        context: usize,
        /// Bytes of the longest token.
        longest: usize,
        /// Bytes that may fit.
        limit: usize,
    },
    /// Nothing is to be generated.
    #[error("max_tokens is 0; it must be at least 1")]
    NoTokens,
    /// Prompt and answer do not fit.
    #[error(
        "max_tokens is {max_tokens}, but after a prompt of {prompt} tokens the context of `{target}` has room for {room}"
    )]
    ManyTokens {
        /// Tokens that were asked for.
        max_tokens: usize,
        /// Tokens of the prompt.
        prompt: usize,
        /// The target that was asked for.
        target: String,
        /// Tokens that fit behind the prompt.
        room: usize,
    },
    /// More of the answer is known than was asked for.
    #[error("generated has {generated} tokens, but max_tokens is {max_tokens}")]
    ManyGenerated {
        /// Tokens of the answer that are known.
        generated: usize,
        /// Tokens that were asked for.
        max_tokens: usize,
    },
    /// The answer cannot go on as it began.
    #[error("tokens were drawn for an answer that is to go on, and the seed that they were drawn with is not given")]
    NoSeed,
    /// The answer had ended before.
    #[error("generated has {generated} tokens, but the answer ends with the first {end} of them")]
    PastEnd {
        /// Tokens of the answer that are known.
        generated: usize,
        /// So many of them are the answer.
        end: usize,
    },
    /// A token that the target does not have.
    #[error("{field} holds token {token}, but `{target}` has tokens 0 to {last}")]
    UnknownToken {
        /// Where it stands.
        field: &'static str,
        /// The token.
        token: Token,
        /// The target that was asked for.
        target: String,
        /// The greatest token there is.
        last: usize,
    },
}

impl RequestError {
    /// Whether the constraint is what is wrong.
    fn is_of_constraint(&self) -> bool {
        let known = matches!(self, Self::Constraint(_) | Self::Wire(WireError::Constraint(_)));
        known || matches!(self, Self::ToolsAndConstraint { .. } | Self::CallForm(_))
    }

    /// Whose word is missing, if the same request may be right later: what it names may be a service that has not said yet
    /// what it is.
    pub(crate) fn missing(&self) -> Option<Party> {
        match self {
            Self::UnknownTarget { known, .. } if !known.is_all() => Some(Party::Verifier),
            Self::UnknownDrafter { known, .. } if !known.is_all() => Some(Party::Drafter),
            _ => None,
        }
    }
}

/// Why a generation did not begin or ended early.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The request breaks a rule.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The request was not let in.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Who asks has not shown a key that allows it.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Too many ask for the status of all services.
    #[error("{limit} surveys of all services are under way, which is the limit")]
    Surveys {
        /// Surveys that may be under way at once.
        limit: usize,
    },
    /// Another service failed, or this one.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<GatewayError> for Fault {
    fn from(error: GatewayError) -> Self {
        match error {
            GatewayError::Request(RequestError::Render(error)) => error.into(),
            GatewayError::Request(RequestError::CallForm(CallFormError::Render(error))) => {
                Self::from(error).in_constraint()
            }
            GatewayError::Request(rule) if rule.is_of_constraint() => {
                Self::new(Party::Client, FaultKind::BadInput, rule).in_constraint()
            }
            GatewayError::Request(rule) => match rule.missing() {
                Some(party) => Self::new(party, FaultKind::Gone, rule).retry_after(RETRY_INTERVAL),
                None => Self::new(Party::Client, FaultKind::BadInput, rule),
            },
            GatewayError::Refused(Refusal { reason, retry_after }) => {
                let kind = if reason == Reason::Late { FaultKind::Late } else { FaultKind::Overloaded };
                Self { retry_after, ..Self::new(Party::Gateway, kind, reason) }
            }
            GatewayError::Key(error) => error.into(),
            GatewayError::Surveys { .. } => {
                Self::new(Party::Gateway, FaultKind::Overloaded, error).retry_after(SURVEY_AFTER)
            }
            GatewayError::Fault(fault) => fault,
        }
    }
}

impl From<GatewayError> for Status {
    fn from(error: GatewayError) -> Self {
        let fault = Fault::from(error);
        match fault.kind {
            FaultKind::Internal => tracing::error!(%fault, "a request failed"),
            _ => tracing::debug!(%fault, "a request was refused"),
        }
        fault.into()
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    const KEY_WORDS: &str = "no valid API key: `authorization` must be `Bearer` and a key of this gateway";

    #[test]
    fn each_error_has_its_status_and_its_words() {
        let fault = Fault::new(Party::Verifier, FaultKind::Gone, "connection reset");
        let full = Reason::Full { running: 9, queued: 2 };
        let refused = |reason| GatewayError::Refused(Refusal { reason, retry_after: None });
        let cases = [
            (RequestError::NoTokens.into(), Code::InvalidArgument, "max_tokens is 0; it must be at least 1"),
            (refused(full), Code::ResourceExhausted, "9 requests are being served and 2 wait, which are the limits"),
            (refused(Reason::Late), Code::DeadlineExceeded, "the request's deadline has passed"),
            (KeyError::Unknown.into(), Code::Unauthenticated, KEY_WORDS),
            (KeyError::NoStatus.into(), Code::PermissionDenied, "this API key may not ask what the services do"),
            (fault.into(), Code::Unavailable, "connection reset"),
        ];
        for (error, code, words) in cases {
            let status = Status::from(error);
            assert_eq!((status.code(), status.message()), (code, words));
        }
    }
}
