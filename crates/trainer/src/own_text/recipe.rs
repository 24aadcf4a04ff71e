//! How a target's own text is asked for.

use std::path::PathBuf;

use espalier_model::DeviceKind;
use espalier_speculation::Sampling;

use crate::error::{Result, in_range};
use crate::recipe::THREADS_MAX;

/// Most tokens of an answer.
pub const ANSWER_TOKENS_MAX: usize = 1 << 16;
/// Most answers that a thread writes at a time.
pub const ANSWERS_AT_A_TIME_MAX: usize = 512;

/// How a target's own text is written. One recipe and the same prompts give the same bytes, whatever the number of
/// threads and of answers at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct TextRecipe {
    /// The checkpoint of the target.
    pub target: PathBuf,
    /// Continue the prompts as they are, without the chat template.
    pub raw: bool,
    /// Most tokens of an answer, 1 to [`ANSWER_TOKENS_MAX`]; less where the context ends.
    pub max_tokens: usize,
    /// The share of answers of the most probable tokens, 0 to 1; which, the seed says. The others are drawn.
    pub greedy_share: f64,
    /// The temperature of drawn answers.
    pub temperature: f64,
    /// The seed of everything random.
    pub seed: u64,
    /// Answers that each thread writes at a time, 1 to [`ANSWERS_AT_A_TIME_MAX`]: more share one reading of the weights,
    /// and hold more keys and values.
    pub answers_at_a_time: usize,
    /// Threads. On another device than the processor there is one.
    pub threads: usize,
    /// Where the target runs.
    pub device: DeviceKind,
}

impl TextRecipe {
    /// The usual way for a target: answers of up to 128 tokens, half of them greedy, half drawn at temperature 1.
    pub fn new(target: PathBuf) -> Self {
        Self {
            target,
            raw: false,
            max_tokens: 128,
            greedy_share: 0.5,
            temperature: 1.0,
            seed: 0,
            answers_at_a_time: 16,
            threads: 1,
            device: DeviceKind::Cpu,
        }
    }

    /// Threads that write. A device computes one pass after the other, and what one thread gives back of its memory must
    /// not come between what another notes down of a pass.
    pub(super) fn writers(&self) -> usize {
        if self.device == DeviceKind::Cpu { self.threads } else { 1 }
    }

    pub(super) fn check(&self) -> Result<()> {
        in_range("most tokens of an answer", self.max_tokens as f64, 1.0, ANSWER_TOKENS_MAX as f64)?;
        in_range("the share of greedy answers", self.greedy_share, 0.0, 1.0)?;
        in_range("answers at a time", self.answers_at_a_time as f64, 1.0, ANSWERS_AT_A_TIME_MAX as f64)?;
        in_range("threads", self.threads as f64, 1.0, THREADS_MAX as f64)?;
        Ok(Sampling::new(self.temperature, 0, 1.0, self.seed).map(drop)?)
    }
}
