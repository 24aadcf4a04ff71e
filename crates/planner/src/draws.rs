//! Draws from distributions, all from one seed.

use espalier_speculation::SplitMix64;

/// Numbers that a seed decides.
#[derive(Debug, Clone)]
pub(crate) struct Draws(SplitMix64);

impl Draws {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(SplitMix64::mix(seed)))
    }

    /// A generator of its own for somebody.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }

    /// 64 fair bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// From a normal distribution of mean 0 and variance 1 (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// From a lognormal distribution of mean 1, `sigma` being the standard deviation of its logarithm; 1 without a draw if
    /// that is 0.
    pub(crate) fn factor(&mut self, sigma: f64) -> f64 {
        if sigma == 0.0 { 1.0 } else { libm::exp(sigma * self.normal() - sigma * sigma / 2.0) }
    }

    /// From an exponential distribution of mean 1: the pause before the next of independent arrivals.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// A whole number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.unit() * end as f64) as usize).min(end.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_variance(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        const COUNT: usize = 40_000;
        let drawn: Vec<f64> = (0..COUNT).map(|_| draw()).collect();
        let mean = drawn.iter().sum::<f64>() / COUNT as f64;
        (mean, drawn.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / COUNT as f64)
    }

    #[test]
    fn distributions_have_their_means_and_variances() {
        let mut draws = Draws::new(3);
        let (mean, variance) = mean_and_variance(|| draws.normal());
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        let (mean, variance) = mean_and_variance(|| draws.exponential());
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.06, "{mean} {variance}");
        let (mean, variance) = mean_and_variance(|| draws.factor(0.1));
        assert!((mean - 1.0).abs() < 0.002 && (variance - 0.01).abs() < 0.001, "{mean} {variance}");
    }

    #[test]
    fn a_seed_decides_and_forks_differ() {
        let drawn = |seed| {
            let mut draws = Draws::new(seed);
            let mut fork = draws.fork();
            (draws.bits(), fork.bits(), fork.below(7))
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert_ne!(drawn(1).0, drawn(1).1);
    }
}
