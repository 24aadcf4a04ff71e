//! What a sequence is meant for.

use std::time::Duration;

use crate::draws::Draws;

/// Whether a sequence may come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing stops it.
    Patient,
    /// The client goes away after so long.
    Cancelled(Duration),
    /// It is of use for so long only.
    Due(Duration),
}

impl Fate {
    /// The fate of the sequence of index `i`: a third each; the moments lie anywhere within `span`, as the seed decides.
    pub(super) fn of(i: usize, span: Duration, seed: u64) -> Self {
        let moment = span.mul_f64(Draws::new(seed.wrapping_add(i as u64)).share());
        match i % 3 {
            0 => Self::Patient,
            1 => Self::Cancelled(moment),
            _ => Self::Due(moment),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_is_cancelled_and_a_third_has_a_deadline_at_moments_that_the_seed_decides() {
        let span = Duration::from_secs(1);
        let fates = |seed| (0..3000).map(|i| Fate::of(i, span, seed)).collect::<Vec<_>>();
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
        let moments = |of: fn(&Fate) -> Option<Duration>| fates(1).iter().filter_map(of).collect::<Vec<_>>();
        let cancelled = moments(|fate| if let Fate::Cancelled(after) = fate { Some(*after) } else { None });
        let due = moments(|fate| if let Fate::Due(within) = fate { Some(*within) } else { None });
        for moments in [cancelled, due] {
            assert_eq!(moments.len(), 1000);
            // The mean of a thousand numbers between 0 and 1, with a standard deviation of 0.009.
            let mean = moments.iter().map(Duration::as_secs_f64).sum::<f64>() / 1000.0;
            assert!((mean - 0.5).abs() < 0.04 && moments.iter().all(|moment| *moment <= span), "{mean}");
        }
    }
}
