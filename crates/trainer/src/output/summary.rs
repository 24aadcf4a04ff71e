//! How a run went.

use serde::Serialize;

use super::log::Validation;

/// What a finished run came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Steps done.
    pub steps: usize,
    /// Steps that there would have been without an early stop.
    pub steps_planned: usize,
    /// The step whose weights were saved: that of the best evaluation, or the last.
    pub best_step: usize,
    /// Numbers that were trained.
    pub parameters: usize,
    /// Tokens learned from, every epoch counted.
    pub tokens: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// The mean loss of the last step.
    pub loss: f64,
    /// The best evaluation.
    pub validation: Option<Validation>,
    /// SHA-256 over the text as tokens, in hexadecimal.
    pub text_fingerprint: String,
}
