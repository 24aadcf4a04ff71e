//! The drafter's guess at a coupled decision: tokens ranked by log-probability plus noise.

use crate::candidates::best_first;
use crate::noise::{Gumbel, Noise};
use crate::numeric::{self, Scale, Softmax};
use crate::{Candidates, Token, select};

/// The `k` tokens with the greatest `score + noise`, best first (ties: smaller token), each with
/// the probability that it wins given this noise, `softmax(score + noise)`, in exact `f64`.
///
/// `scores` are log-probabilities up to a common constant. Confidence and entropy are those of
/// `softmax(score)`, without noise.
pub fn rank_with_noise<N: Noise + ?Sized>(scores: &[(Token, f64)], noise: &N, k: usize) -> Candidates {
    let shape = Softmax::exact(scores).1.shape();
    let noisy = |&(token, score): &(Token, f64)| Some((token, score + noise.above(token, f64::NEG_INFINITY)?));
    let mut sums: Vec<(Token, f64)> = scores.iter().filter_map(noisy).collect();
    sums.sort_unstable_by(best_first);
    let (best, softmax) = Softmax::exact(&sums);
    let probs = sums.into_iter().map(|(token, sum)| (token, softmax.prob(sum - best)));
    let tokens = probs.take(k).filter(|&(_, prob)| prob > 0.0).collect();
    Candidates::from_parts(tokens, shape)
}

/// Candidates among all tokens, ranked and weighed in `f32` with a relative error below 1e-5:
/// a near-tie may be ranked the other way round, which costs nothing but the guess.
pub(crate) fn over_vocabulary(logits: &[f32], scale: Scale, noise: &Gumbel, k: usize) -> Candidates {
    let shape = Softmax::over(logits, scale).shape();
    let mut weights = numeric::weights(logits, scale);
    // exp(log q + g) = q / E, with g = -ln E: no second exponential is needed.
    noise.divide_by_waits(&mut weights);
    let total = numeric::sum(&weights);
    let tokens = select::top(&weights, k)
        .into_iter()
        .map(|(token, weight)| (token, (f64::from(weight) / total).min(1.0)))
        .filter(|&(_, prob)| prob > 0.0)
        .collect();
    Candidates::from_parts(tokens, shape)
}
