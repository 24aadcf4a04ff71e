//! Tokens per millisecond over many rounds, and how sure that is.

/// Faded sums over rounds; the newest round counts 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    /// Rounds.
    rounds: f64,
    tokens: f64,
    ms: f64,
    /// Of the squares of weights, and of products under them.
    squares: f64,
    tokens_tokens: f64,
    tokens_ms: f64,
    ms_ms: f64,
}

/// An estimate and its standard error, in tokens per millisecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

impl Sums {
    /// Adds a round of so many tokens and milliseconds.
    pub(crate) fn add(&mut self, tokens: f64, ms: f64) {
        self.rounds += 1.0;
        self.tokens += tokens;
        self.ms += ms;
        self.squares += 1.0;
        self.tokens_tokens += tokens * tokens;
        self.tokens_ms += tokens * ms;
        self.ms_ms += ms * ms;
    }

    /// Lets every round count only `kept`, in (0, 1], of what it did.
    pub(crate) fn fade(&mut self, kept: f64) {
        let of_squares = kept * kept;
        [&mut self.rounds, &mut self.tokens, &mut self.ms].into_iter().for_each(|sum| *sum *= kept);
        let squares = [&mut self.squares, &mut self.tokens_tokens, &mut self.tokens_ms, &mut self.ms_ms];
        squares.into_iter().for_each(|sum| *sum *= of_squares);
    }

    /// As many unfaded rounds would be as sure.
    fn effective_rounds(&self) -> f64 {
        if self.squares > 0.0 { self.rounds * self.rounds / self.squares } else { 0.0 }
    }

    /// Milliseconds of a round on average; none of fewer than so many rounds.
    pub(crate) fn mean_ms(&self, rounds_min: f64) -> Option<f64> {
        (self.effective_rounds() >= rounds_min).then(|| self.ms / self.rounds)
    }

    /// Tokens over time, with the error of a ratio: the spread of what rounds commit beyond what their time would let
    /// expect. That of few rounds is itself unsure, so the error is the standard deviation of Student's distribution with
    /// one degree of freedom less than there are rounds; for 3 rounds it is infinite. None of those, nor of fewer than asked
    /// for.
    pub(crate) fn rate(&self, rounds_min: f64) -> Option<Rate> {
        let rounds = self.effective_rounds();
        if rounds < rounds_min || rounds <= 3.0 || self.ms <= 0.0 {
            return None;
        }
        let value = self.tokens / self.ms;
        let spread = self.tokens_tokens - 2.0 * value * self.tokens_ms + value * value * self.ms_ms;
        // Sums of equal rounds may cancel to a little less than 0.
        Some(Rate { value, error: (spread.max(0.0) * rounds / (rounds - 3.0)).sqrt() / self.ms })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_pooled_and_its_error_shrinks_with_rounds() {
        let sums = |rounds: usize| {
            let mut sums = Sums::default();
            (0..rounds).for_each(|i| sums.add([1.0, 3.0][i % 2], 10.0));
            sums.rate(2.0).unwrap()
        };
        // Tokens deviate by 1 from their mean of 2: the error of their mean over n rounds is 1 / sqrt(n - 3).
        let (few, many) = (sums(103), sums(403));
        assert!((few.value - 0.2).abs() < 1e-3 && (many.value - 0.2).abs() < 1e-3);
        assert!((few.error - 0.01).abs() < 1e-5 && (many.error - 0.005).abs() < 1e-5);
        assert!(sums(4).error > 0.09);
    }

    #[test]
    fn rounds_that_differ_in_length_alone_leave_no_doubt() {
        let mut sums = Sums::default();
        (1..30).for_each(|n| sums.add(f64::from(n), 10.0 * f64::from(n)));
        assert!(sums.rate(2.0).unwrap().error < 1e-6);
    }

    #[test]
    fn fading_keeps_the_rate_and_grows_the_doubt() {
        let mut sums = Sums::default();
        (0..400).for_each(|i| {
            sums.add([1.0, 3.0][i % 2], 10.0);
            sums.fade(0.98);
        });
        let rate = sums.rate(2.0).unwrap();
        // Half of the weight lies on the last 34 rounds; 99 even ones would be as sure.
        assert!((rate.value - 0.2).abs() < 0.005 && (rate.error - 0.01).abs() < 0.001, "{rate:?}");
        assert!((sums.effective_rounds() - 99.0).abs() < 1.0);
    }

    #[test]
    fn too_few_rounds_say_nothing() {
        let mut sums = Sums::default();
        assert_eq!((sums.rate(1.0), sums.mean_ms(1.0)), (None, None));
        sums.add(2.0, 8.0);
        assert_eq!((sums.rate(2.0), sums.mean_ms(1.0)), (None, Some(8.0)));
    }
}
