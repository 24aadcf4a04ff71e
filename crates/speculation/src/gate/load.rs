//! How many sequences there are at once, as far as that is told apart.

/// A bucket of numbers of open sequences: all up to 4, then two to each doubling. What drafting makes of plain decoding
/// hardly differs within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Load(u32);

/// Buckets to each doubling.
const PER_DOUBLING: f64 = 2.0;

impl Load {
    /// Of so many open sequences, on average.
    pub(super) fn of(open: f64) -> Self {
        Self((PER_DOUBLING * libm::log2(open.max(1.0))).round() as u32)
    }

    /// How many buckets lie between.
    pub(super) fn distance(self, other: Self) -> u32 {
        self.0.abs_diff(other.0)
    }

    /// Whether there are about twice as many sequences, or half as many.
    pub(super) fn is_far_from(self, other: Self) -> bool {
        f64::from(self.distance(other)) >= PER_DOUBLING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_are_of_few_buckets() {
        let buckets = [1.0, 1.1, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 64.0].map(|open| Load::of(open).0);
        assert_eq!(buckets, [0, 0, 2, 3, 4, 5, 5, 6, 7, 8, 12]);
        assert!(Load::of(4.0).is_far_from(Load::of(8.0)) && !Load::of(4.0).is_far_from(Load::of(6.0)));
    }
}
