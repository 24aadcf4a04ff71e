//! What of an answer must not differ, whoever drafted and whatever failed.

use espalier_client::Answer;
use espalier_speculation::FinishReason;

/// All of an answer that must not differ: tokens, text, logprobs, and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    ids: Vec<u32>,
    text: String,
    logprobs: Vec<Option<f64>>,
    reason: FinishReason,
    stop_string: Option<String>,
}

impl From<&Answer> for Said {
    fn from(answer: &Answer) -> Self {
        Self {
            ids: answer.ids(),
            text: answer.text(),
            logprobs: answer.tokens.iter().map(|token| token.logprob).collect(),
            reason: answer.completion.reason,
            stop_string: answer.completion.stop_string.clone(),
        }
    }
}
