//! Temperature above 0: the arg-max of log-probability plus Gumbel noise, which is a fair draw
//! from the distribution and the same draw for whoever knows the noise.

use crate::Token;
use crate::noise::Noise;

/// The token with the greatest `score + noise`, among equals the first; `None` if there is no
/// score above minus infinity.
///
/// `scores` are log-probabilities up to a common constant, by rising token. Most tokens are
/// passed over without computing their noise: a ceiling on it says that they cannot win. What is
/// passed over could at best have tied with an earlier token, so the result is exact.
pub fn winner<N: Noise + ?Sized>(scores: impl IntoIterator<Item = (Token, f64)>, noise: &N) -> Option<Token> {
    let mut best = (None, f64::NEG_INFINITY);
    for (token, score) in scores {
        if let Some(noise) = noise.above(token, best.1 - score)
            && score + noise > best.1
        {
            best = (Some(token), score + noise);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Gumbel;

    #[test]
    fn without_noise_the_most_probable_wins_and_equals_by_smaller_token() {
        let scores = [(0, -2.0), (1, -0.5), (2, -0.5)];
        assert_eq!(winner(scores, &[0.0; 3][..]), Some(1));
    }

    #[test]
    fn what_is_impossible_never_wins() {
        assert_eq!(winner([(0, f64::NEG_INFINITY), (1, -50.0)], &[99.0, 0.0][..]), Some(1));
        assert_eq!(winner([(0, f64::NEG_INFINITY)], &[0.0][..]), None);
        assert_eq!(winner([], &[0.0][..]), None);
    }

    proptest! {
        #[test]
        fn passing_tokens_over_changes_nothing(
            scores in prop::collection::vec(-12.0_f64..0.0, 1..400), seed: u64, position: u64
        ) {
            let noise = Gumbel::new(seed, position);
            let scores: Vec<(Token, f64)> = (0..).zip(scores).collect();
            let sum = |&(token, score): &(Token, f64)| score + noise.at(token);
            let exhaustive = scores.iter().max_by(|a, b| sum(a).total_cmp(&sum(b))).map(|&(token, _)| token);
            prop_assert_eq!(winner(scores.iter().copied(), &noise), exhaustive);
        }
    }
}
