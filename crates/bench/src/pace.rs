//! How fast answers came.

use std::iter::Sum;

use espalier_client::Answer;

/// Tokens after the first ones of an answer, and the seconds they took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    /// The tokens.
    pub tokens: usize,
    /// The seconds.
    pub seconds: f64,
}

impl Pace {
    /// That of one answer.
    pub fn of(answer: &Answer) -> Self {
        let (tokens, took) = answer.decoded();
        Self { tokens, seconds: took.as_secs_f64() }
    }

    /// Tokens a second; none where nothing was timed.
    pub fn rate(self) -> Option<f64> {
        (self.tokens > 0 && self.seconds > 0.0).then(|| self.tokens as f64 / self.seconds)
    }
}

impl Sum for Pace {
    fn sum<I: Iterator<Item = Self>>(paces: I) -> Self {
        paces.fold(Self::default(), |sum, pace| Self {
            tokens: sum.tokens + pace.tokens,
            seconds: sum.seconds + pace.seconds,
        })
    }
}
