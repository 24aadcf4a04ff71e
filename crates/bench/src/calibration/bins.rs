//! Observations sorted into bins, and how far what was said is from what happened.

use serde::Serialize;

/// What somebody said about one token, and whether it was accepted.
pub(super) type Said = (f64, bool);

/// The observations whose value lies above `low` and at most at `high`; the first bin holds 0 too.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Bin {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) count: usize,
    /// Mean value; none of an empty bin.
    pub(super) mean: Option<f64>,
    /// The share that was accepted, and Wilson's 95 % interval around it.
    pub(super) acceptance: Option<f64>,
    pub(super) acceptance_low: Option<f64>,
    pub(super) acceptance_high: Option<f64>,
}

/// Sorts observations into `count` equal bins from 0 to `upper`; what lies beyond goes into the last.
pub(super) fn bins(said: &[Said], upper: f64, count: usize) -> Vec<Bin> {
    let edge = |i: usize| upper * i as f64 / count as f64;
    let index = |value: f64| ((value / upper * count as f64).ceil() as usize).clamp(1, count) - 1;
    let bin = |i: usize| {
        let inside: Vec<Said> = said.iter().copied().filter(|&(value, _)| index(value) == i).collect();
        Bin::of(edge(i), edge(i + 1), &inside)
    };
    (0..count).map(bin).collect()
}

impl Bin {
    fn of(low: f64, high: f64, inside: &[Said]) -> Self {
        let share = |sum: f64| (!inside.is_empty()).then(|| sum / inside.len() as f64);
        let acceptance = share(inside.iter().filter(|(_, accepted)| *accepted).count() as f64);
        let (acceptance_low, acceptance_high) = acceptance.map(|share| wilson(share, inside.len())).unzip();
        let mean = share(inside.iter().map(|(value, _)| value).sum());
        Self { low, high, count: inside.len(), mean, acceptance, acceptance_low, acceptance_high }
    }
}

/// Wilson's interval: the shares that would give `share` of `count` within 1.96 standard deviations.
fn wilson(share: f64, count: usize) -> (f64, f64) {
    const Z: f64 = 1.96;
    let (n, square) = (count as f64, Z * Z);
    let middle = share + square / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
    let whole = 1.0 + square / n;
    (((middle - half) / whole).max(0.0), ((middle + half) / whole).min(1.0))
}

/// The expected calibration error (Guo et al., 2017): the distance between mean confidence and acceptance of a bin,
/// averaged over all observations. None without any.
pub(super) fn calibration_error(bins: &[Bin]) -> Option<f64> {
    let all: usize = bins.iter().map(|bin| bin.count).sum();
    let distance = |bin: &Bin| Some(bin.count as f64 * (bin.mean? - bin.acceptance?).abs());
    (all > 0).then(|| bins.iter().filter_map(distance).sum::<f64>() / all as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bin_holds_its_upper_edge_and_not_its_lower() {
        let bins = bins(&[(0.0, true), (0.1, true), (0.100_001, false), (0.95, true), (1.0, false)], 1.0, 10);
        let counts: Vec<usize> = bins.iter().map(|bin| bin.count).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!((bins[3].low, bins[3].high), (0.3, 0.4));
    }

    #[test]
    fn a_bin_knows_its_mean_and_its_acceptance() {
        let bins = bins(&[(0.25, true), (0.75, true), (1.75, false), (1.25, true), (1.5, false), (1.5, false)], 2.0, 2);
        assert_eq!((bins[0].mean, bins[0].acceptance), (Some(0.5), Some(1.0)));
        assert_eq!((bins[1].mean, bins[1].acceptance), (Some(1.5), Some(0.25)));
    }

    #[test]
    fn an_empty_bin_has_no_mean() {
        let empty = Bin::of(0.0, 1.0, &[]);
        assert_eq!((empty.count, empty.mean, empty.acceptance, empty.acceptance_low), (0, None, None, None));
        assert_eq!(bins(&[], 1.0, 1), [empty]);
    }

    #[test]
    fn few_observations_say_little() {
        // Known values: Wilson's interval of 1 of 1, and of 50 of 100.
        let (low, high) = wilson(1.0, 1);
        assert!((low - 0.2065).abs() < 1e-3 && (high - 1.0).abs() < 1e-12);
        let (low, high) = wilson(0.5, 100);
        assert!((low - 0.4038).abs() < 1e-3 && (high - 0.5962).abs() < 1e-3);
    }

    #[test]
    fn the_error_is_the_mean_distance_of_confidence_and_acceptance() {
        // Two thirds of the observations say 0.75 and half of them are right; the others say 0.125 and never are.
        let said = [(0.75, true), (0.75, false), (0.125, false)];
        let error = calibration_error(&bins(&said, 1.0, 10)).unwrap();
        assert!((error - (2.0 * 0.25 + 0.125) / 3.0).abs() < 1e-15, "{error}");
    }

    #[test]
    fn who_is_right_as_often_as_promised_makes_no_error() {
        let said: Vec<Said> = (0..100).map(|i| (0.75, i % 4 != 0)).collect();
        assert_eq!(calibration_error(&bins(&said, 1.0, 10)), Some(0.0));
        assert_eq!(calibration_error(&bins(&[], 1.0, 10)), None);
    }

    proptest! {
        #[test]
        fn every_observation_is_in_one_bin(said in prop::collection::vec((0.0..1.5_f64, any::<bool>()), 0..50), count in 1..12_usize) {
            let bins = bins(&said, 1.0, count);
            prop_assert_eq!(bins.iter().map(|bin| bin.count).sum::<usize>(), said.len());
            for bin in &bins {
                prop_assert_eq!(bin.count == 0, bin.mean.is_none());
                prop_assert!(bin.acceptance.is_none_or(|share| (0.0..=1.0).contains(&share)));
            }
        }
    }
}
