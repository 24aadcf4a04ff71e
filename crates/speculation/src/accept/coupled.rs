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
