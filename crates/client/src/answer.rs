//! An answer and how long it took.

use std::time::Duration;

use espalier_proto::{Completion, GeneratedToken, RoundTrace};

/// An answer and how long it took.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The tokens, in order.
    pub tokens: Vec<GeneratedToken>,
    /// The rounds that they are from, if these were asked for.
    pub rounds: Vec<RoundTrace>,
    /// How it ended.
    pub completion: Completion,
    /// From the request to the end of the answer.
    pub elapsed: Duration,
    /// How often its stream broke and was gone on with; what `completion` tells of speculation is of the last stream.
    pub resumed: u32,
    /// From the first tokens to the end, and how many tokens came after the first ones.
    pub(crate) decoding: (Duration, usize),
}

impl Answer {
    /// The text.
    pub fn text(&self) -> String {
        let pieces = self.tokens.iter().map(|token| token.text.as_str());
        pieces.chain([self.completion.text.as_str()]).collect()
    }

    /// The tokens' ids.
    pub fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.id).collect()
    }

    /// Tokens per second over the whole request, the reading of the prompt included.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// From the request to the first tokens, or to the end of an answer without any.
    pub fn until_first(&self) -> Duration {
        self.elapsed.saturating_sub(self.decoding.0)
    }

    /// Tokens per second from the first tokens on: without the reading of the prompt, which takes as long with
    /// speculation as without. None for an answer that came in one piece.
    pub fn decoded_per_second(&self) -> Option<f64> {
        let (elapsed, tokens) = self.decoding;
        (tokens > 0).then(|| tokens as f64 / elapsed.as_secs_f64())
    }

    /// The tokens after the first ones and the time they took: what [`Self::decoded_per_second`] divides, for rates over
    /// many answers.
    pub fn decoded(&self) -> (usize, Duration) {
        let (elapsed, tokens) = self.decoding;
        (tokens, elapsed)
    }
}
