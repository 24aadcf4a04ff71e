//! Between which measurements a median lies.

/// The probability that the interval does not hold the true median, at most.
const WRONG_MAX: f64 = 0.05;

/// An interval that holds the true median of what was measured with a probability of 95 % or more, however the
/// measurements are distributed, as long as they are independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Interval {
    /// None of less than 6 measurements: all of 5 lie on the same side of the true median once in 16 cases.
    pub(super) fn of_median(values: &[f64]) -> Option<Self> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let out = left_out(values.len())?;
        Some(Self { low: *values.get(out)?, high: *values.get(values.len().checked_sub(1 + out)?)? })
    }
}

/// How many of the least and of the greatest of `count` measurements lie outside of the interval: the sign test. The
/// true median is below the interval if at most that many measurements are below it, which is as likely as at most that
/// many heads in `count` tosses of a coin.
fn left_out(count: usize) -> Option<usize> {
    let tosses = i32::try_from(count).ok()?;
    // The probability of so many heads, and of at most so many.
    let (mut exactly, mut at_most) = (0.5_f64.powi(tosses), 0.0);
    let mut heads = 0_usize;
    loop {
        at_most += exactly;
        if 2.0 * at_most > WRONG_MAX {
            return heads.checked_sub(1);
        }
        exactly *= (count - heads) as f64 / (heads + 1) as f64;
        heads += 1;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_the_sign_test() {
        let known = [(5, None), (6, Some(0)), (8, Some(0)), (9, Some(1)), (12, Some(2)), (15, Some(3)), (17, Some(4))];
        for (count, expected) in known.into_iter().chain([(0, None), (1, None), (20, Some(5)), (25, Some(7))]) {
            assert_eq!(left_out(count), expected, "{count}");
        }
    }

    #[test]
    fn an_interval_lies_between_measurements() {
        let nine = [9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0];
        assert_eq!(Interval::of_median(&nine), Some(Interval { low: 2.0, high: 8.0 }));
        assert_eq!(Interval::of_median(&nine[..5]), None);
    }

    /// Skewed measurements with a median of 1: no normal distribution is assumed anywhere.
    #[test]
    fn the_true_median_lies_within_in_95_of_100_cases() {
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
            (3.0 * (uniform - 0.5)).exp()
        };
        for turns in [6, 9, 20] {
            const RUNS: usize = 4000;
            let holds = |_: &usize| {
                let values: Vec<f64> = (0..turns).map(|_| draw()).collect();
                let interval = Interval::of_median(&values).unwrap();
                interval.low <= 1.0 && 1.0 <= interval.high
            };
            let share = (0..RUNS).filter(holds).count() as f64 / RUNS as f64;
            // Three standard errors of such a share are 0.01.
            assert!(share > 0.94 && share < 1.0, "{turns} turns: {share}");
        }
    }
}
