//! Medians and quantiles.

use serde::Serialize;

/// The middle value, or the mean of the two middle ones; none of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

/// The median of some measurements, and two of them between which that of all there might be lies in about 19 of 20 cases: as
/// many are left out at either end as there are hardly fewer heads in so many tosses of a coin. Of less than eight none is.
pub(crate) fn median_interval(values: impl IntoIterator<Item = f64>) -> Option<[f64; 3]> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let out = ((count - 1.96 * count.sqrt()) / 2.0).max(0.0) as usize;
    let (low, high) = (*values.get(out)?, *values.get(values.len().checked_sub(1 + out)?)?);
    Some([median(values)?, low, high])
}

/// The value that a share of the sorted `values` does not exceed.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    values.get((share * last as f64).round() as usize).copied()
}

/// What half, nearly all and all but one in a hundred of some values do not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

impl Spread {
    /// None of nothing.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| quantile(&values, share));
        Some(Self { p50: p50?, p95: p95?, p99: p99? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn the_more_measurements_the_surer_the_median() {
        let of = |count: u32| median_interval((0..count).rev().map(f64::from));
        assert_eq!((of(0), of(1), of(4)), (None, Some([0.0, 0.0, 0.0]), Some([1.5, 0.0, 3.0])));
        // The eighth of 25 from below and from above: fewer than eight heads in 25 tosses come about once in 50.
        assert_eq!(of(25), Some([12.0, 7.0, 17.0]));
        assert_eq!(of(101), Some([50.0, 40.0, 60.0]));
    }

    #[test]
    fn a_spread_says_what_few_values_exceed() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([7.0]), Some(Spread { p50: 7.0, p95: 7.0, p99: 7.0 }));
        let hundred = (0..=100).rev().map(f64::from);
        assert_eq!(Spread::of(hundred), Some(Spread { p50: 50.0, p95: 95.0, p99: 99.0 }));
    }
}
