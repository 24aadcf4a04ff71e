//! What became of a request.

use std::time::Duration;

use espalier_client::{Answer, ClientError};
use espalier_proto::{FaultKind, SpeculationSummary};

/// The text that plain decoding alone gives, or that another way gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    ids: Vec<u32>,
    text: String,
}

impl From<&Answer> for Text {
    fn from(answer: &Answer) -> Self {
        Self { ids: answer.ids(), text: answer.text() }
    }
}

/// One request, as far as it counts.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Finished(Box<Finished>),
    /// There was no room.
    Refused {
        after: Duration,
        /// When to come again, if that was said.
        hint: Option<Duration>,
    },
    /// It was not over when its time was.
    Late,
    Failed(String),
}

/// A request that was answered.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    /// From the request's arrival to the first tokens.
    pub(super) first: Duration,
    /// The tokens after the first ones, and the time they took.
    pub(super) decoded: (usize, Duration),
    pub(super) tokens: usize,
    pub(super) speculation: SpeculationSummary,
    /// Whether its text is the one of plain decoding alone.
    pub(super) identical: bool,
}

impl Outcome {
    /// What a request came to that was sent `late` after its arrival and took `took`; `expected` is its text.
    pub(super) fn new(result: Result<Answer, ClientError>, late: Duration, took: Duration, expected: &Text) -> Self {
        match result {
            Ok(answer) => Self::Finished(Box::new(Finished {
                first: late + answer.until_first(),
                decoded: answer.decoded(),
                tokens: answer.tokens.len(),
                identical: *expected == Text::from(&answer),
                speculation: answer.completion.speculation,
            })),
            Err(ClientError::Fault(fault)) if fault.kind == FaultKind::Overloaded => {
                Self::Refused { after: took, hint: fault.retry_after }
            }
            Err(error) => Self::Failed(espalier_service_kit::chain(&error).to_string()),
        }
    }
}
