//! How much faster than others answers came, and how sure that is.

use crate::draws::Draws;
use crate::pace::Pace;
use crate::statistics::quantile;

/// Resamplings that an interval is made of.
const RESAMPLES: u64 = 2000;

/// What lies outside of an interval on either side, of all resamplings.
const TAIL: f64 = 0.025;

/// The paces of two ways to answer one prompt: plain decoding's and another.
pub(super) type Pair = (Pace, Pace);

/// Tokens a second of one way, pooled over all prompts, relative to plain decoding's.
pub(super) fn speedup<'a>(pairs: impl Iterator<Item = &'a Pair> + Clone) -> Option<f64> {
    let plain: Pace = pairs.clone().map(|&(plain, _)| plain).sum();
    let other: Pace = pairs.map(|&(_, other)| other).sum();
    Some(other.rate()? / plain.rate()?)
}

/// The interval that holds the speed-up with 95 % confidence: a percentile bootstrap over prompts, each drawn with both
/// of its paces, the same every time. None of fewer than two prompts.
pub(super) fn interval(pairs: &[Pair]) -> Option<(f64, f64)> {
    if pairs.len() < 2 {
        return None;
    }
    let resampled = |resample| {
        let mut draws = Draws::new(resample);
        let drawn: Vec<&Pair> = pairs.iter().map(|_| &pairs[draws.below(pairs.len())]).collect();
        speedup(drawn.into_iter())
    };
    let mut speedups: Vec<f64> = (0..RESAMPLES).filter_map(resampled).collect();
    speedups.sort_by(f64::total_cmp);
    Some((quantile(&speedups, TAIL)?, quantile(&speedups, 1.0 - TAIL)?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn pace(tokens: usize, seconds: f64) -> Pace {
        Pace { tokens, seconds }
    }

    /// Pairs of 100 tokens; plain decoding takes a second, the other as long as told.
    fn pairs(seconds: &[f64]) -> Vec<Pair> {
        seconds.iter().map(|&seconds| (pace(100, 1.0), pace(100, seconds))).collect()
    }

    #[test]
    fn a_speedup_is_pooled_over_prompts() {
        assert_eq!(speedup(pairs(&[0.5]).iter()), Some(2.0));
        assert_eq!(speedup(pairs(&[0.25, 0.75]).iter()), Some(2.0), "not the mean of 4 and 1.33");
    }

    #[test]
    fn where_nothing_was_timed_there_is_no_speedup() {
        assert_eq!(speedup([].iter()), None);
        assert_eq!(speedup([(pace(0, 0.0), pace(100, 1.0))].iter()), None);
        assert_eq!((interval(&[]), interval(&pairs(&[0.5]))), (None, None));
    }

    #[test]
    fn an_interval_holds_the_speedup_and_narrows_with_prompts() {
        let few = pairs(&[0.4, 0.5, 0.6, 0.5]);
        let many = pairs(&[0.4, 0.5, 0.6, 0.5].repeat(25));
        let ((low, high), (lower, higher)) = (interval(&many).unwrap(), interval(&few).unwrap());
        assert!(lower < low && low < 2.0 && 2.0 < high && high < higher);
        // The standard error of the mean time is 0.0707 / 10 of 0.5: 1.4 % of the speed-up.
        assert!((low / 2.0 - (1.0 - 1.96 * 0.0141)).abs() < 0.005, "{low}");
    }

    #[test]
    fn prompts_that_agree_leave_no_doubt() {
        assert_eq!(interval(&pairs(&[0.5; 8])), Some((2.0, 2.0)));
    }

    #[test]
    fn an_interval_is_the_same_every_time() {
        let pairs = pairs(&[0.3, 0.5, 0.9]);
        assert_eq!(interval(&pairs), interval(&pairs));
    }
}
