//! Random numbers that a seed decides.

use espalier_speculation::SplitMix64;

/// Draws that a number decides.
pub(crate) struct Draws(SplitMix64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds start far apart in the sequence.
        Self(SplitMix64::new(seed.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// An index below `bound`, all alike but for one part in 2^64.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A number above 0 and at most 1.
    pub(crate) fn share(&mut self) -> f64 {
        const STEPS: u64 = 1 << 53;
        ((self.0.next_u64() % STEPS) + 1) as f64 / STEPS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_fair() {
        let mut counts = [0_u32; 6];
        (0..1000).for_each(|seed| {
            let mut draws = Draws::new(seed);
            (0..60).for_each(|_| counts[draws.below(6)] += 1);
        });
        // 10 000 each; the standard deviation is 91.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
    }

    #[test]
    fn shares_fill_the_interval_above_nothing() {
        let mut draws = Draws::new(1);
        let shares: Vec<f64> = (0..10_000).map(|_| draws.share()).collect();
        assert!(shares.iter().all(|&share| share > 0.0 && share <= 1.0));
        // The standard deviation of the mean is 0.0029.
        assert!((shares.iter().sum::<f64>() / 10_000.0 - 0.5).abs() < 0.012);
    }
}
