//! The drafter's guess at a coupled decision: tokens ranked by log-probability plus noise.

use crate::candidates::best_first;
use crate::noise::{Gumbel, Noise};
use crate::numeric::{self, Scale, Softmax};
use crate::{Candidates, Token, select};

/// Candidates among a few tokens, given as (token, score) with the greatest score 0, in exact
/// `f64`.
pub(crate) fn over_scores<N: Noise + ?Sized>(
    scores: &[(Token, f64)],
    noise: &N,
    k: usize,
) -> Candidates {
    let shape = Softmax::exact(scores.iter().map(|&(_, score)| score)).shape();
    let mut sums = perturbed(scores, noise);
    sums.sort_unstable_by(best_first);
    let best = sums.first().map_or(0.0, |&(_, sum)| sum);
    let softmax = Softmax::exact(sums.iter().map(|&(_, sum)| sum - best));
    let probs = sums.into_iter().map(|(token, sum)| (token, softmax.prob(sum - best)));
    Candidates::from_parts(probs.filter(|&(_, prob)| prob > 0.0).take(k).collect(), shape)
}

fn perturbed<N: Noise + ?Sized>(scores: &[(Token, f64)], noise: &N) -> Vec<(Token, f64)> {
    let possible = scores.iter().filter(|(_, score)| score.is_finite());
    possible
        .filter_map(|&(token, score)| Some((token, score + noise.above(token, f64::NEG_INFINITY)?)))
        .collect()
}

/// Candidates among all tokens, ranked and weighed in `f32` with a relative error below 1e-5:
/// a near-tie may be ranked the other way round, which costs nothing but the guess.
pub(crate) fn over_vocabulary(
    logits: &[f32],
    scale: Scale,
    noise: &Gumbel,
    k: usize,
) -> Candidates {
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
