//! The drafter's guess at a coupled decision: tokens ranked by log-probability plus noise.

use crate::candidates::best_first;
use crate::noise::{Gumbel, Noise};
use crate::numeric::{self, Scale, Softmax};
use crate::{Candidates, Token, select};

/// The `k` tokens with the greatest `score + noise`, best first (ties: smaller token), each with
/// the probability that it wins given this noise, `softmax(score + noise)`, in exact `f64`.
///
/// `scores` are log-probabilities up to a common constant; one that is not finite is no
/// candidate. Confidence and entropy are those of
/// `softmax(score)`, without noise.
pub fn rank_with_noise<N: Noise + ?Sized>(scores: &[(Token, f64)], noise: &N, k: usize) -> Candidates {
    let shape = Softmax::exact(scores).1.shape();
    let possible = scores.iter().filter(|(_, score)| score.is_finite());
    let noisy = |&(token, score): &(Token, f64)| Some((token, score + noise.above(token, f64::NEG_INFINITY)?));
    let mut sums: Vec<(Token, f64)> = possible.filter_map(noisy).collect();
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn candidates_are_ranked_by_score_plus_noise() {
        let scores = [(0, 0.5_f64.ln()), (1, 0.25_f64.ln()), (2, 0.25_f64.ln()), (3, f64::NEG_INFINITY)];
        let noise = [0.0, 4.0_f64.ln(), 0.0, 100.0];
        let candidates = rank_with_noise(&scores, &noise[..], 2);
        let [(1, first), (0, second)] = candidates.tokens() else { panic!("{candidates:?}") };
        assert!((first - 1.0 / 1.75).abs() < 1e-15 && (second - 0.5 / 1.75).abs() < 1e-15);
        assert!((candidates.confidence() - 0.5).abs() < 1e-15);
        assert!((candidates.entropy() - 1.5 * std::f64::consts::LN_2).abs() < 1e-15);
    }

    #[test]
    fn of_nothing_there_are_no_candidates() {
        for scores in [&[][..], &[(0, f64::NEG_INFINITY)], &[(0, f64::NAN)]] {
            let candidates = rank_with_noise(scores, &[0.0][..], 3);
            assert_eq!((candidates.tokens(), candidates.confidence()), (&[][..], 0.0));
        }
    }

    #[test]
    fn the_vocabulary_is_ranked_as_exactly_as_stated() {
        let logits: Vec<f32> = (0..3000).map(|i| ((i * 7919) % 1009) as f32 / 70.0).collect();
        let scale = Scale::new(numeric::peak(&logits).unwrap(), 0.8);
        let scores: Vec<(Token, f64)> = scale.scores(&logits).collect();
        for position in 0..50 {
            let noise = Gumbel::new(1, position);
            let (coarse, exact) = (over_vocabulary(&logits, scale, &noise, 8), rank_with_noise(&scores, &noise, 8));
            for (coarse, exact) in coarse.tokens().iter().zip(exact.tokens()) {
                assert_eq!(coarse.0, exact.0);
                assert!((coarse.1 / exact.1 - 1.0).abs() < 1e-5, "{coarse:?} for {exact:?}");
            }
            assert!((coarse.entropy() - exact.entropy()).abs() < 1e-5);
        }
    }
}
