//! The random draws of a policy: the same for the same request seed and position.

use super::RoundStart;
use crate::{Side, Uniforms};

/// Most tries of a method that rejects: fewer than one in 20 is rejected, so all are once in 20^32.
const TRIES_MAX: usize = 32;

/// Draws of one round, from a generator seeded by the request's seed and the position of the root.
pub(super) struct Draws(Uniforms);

impl Draws {
    /// The draws of the round that `start` begins.
    pub(super) fn of(start: &RoundStart) -> Self {
        Self(Uniforms::new(start.seed, start.position, Side::Policy))
    }

    /// True with the chance `theta`.
    pub(super) fn bernoulli(&mut self, theta: f64) -> bool {
        self.uniform() < theta
    }

    /// A normal number: Box and Muller's transform.
    pub(super) fn normal(&mut self, mean: f64, variance: f64) -> f64 {
        // 1 - u is in (0, 1], of which the logarithm is finite.
        let radius = (-2.0 * libm::log(1.0 - self.uniform()) * variance).sqrt();
        mean + radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// A Beta number in [0, 1], of two Gamma numbers; `a` and `b` are positive.
    pub(super) fn beta(&mut self, a: f64, b: f64) -> f64 {
        let (x, y) = (self.gamma(a), self.gamma(b));
        // Both are 0 only by underflow; then the mean is as good as any.
        if x + y > 0.0 { x / (x + y) } else { a / (a + b) }
    }

    /// A Gamma number of scale 1: Marsaglia and Tsang's method, with their boost for shapes below 1.
    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(1.0 - self.uniform(), 1.0 / shape);
            return boost * self.gamma(shape + 1.0);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        (0..TRIES_MAX).find_map(|_| self.gamma_try(d, c)).unwrap_or(d)
    }

    fn gamma_try(&mut self, d: f64, c: f64) -> Option<f64> {
        let x = self.normal(0.0, 1.0);
        let v = (1.0 + c * x).powi(3);
        let bound = 0.5 * x * x + d - d * v + d * libm::log(v);
        (v > 0.0 && libm::log(1.0 - self.uniform()) < bound).then_some(d * v)
    }

    fn uniform(&mut self) -> f64 {
        // The stream is endless; 0 stands for a draw that never lacks.
        self.0.next().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LIMITS, start};

    const SAMPLES: usize = 40_000;

    fn moments(mut draw: impl FnMut(&mut Draws) -> f64) -> (f64, f64) {
        let mut draws = Draws::of(&start(LIMITS));
        let sample: Vec<f64> = (0..SAMPLES).map(|_| draw(&mut draws)).collect();
        let mean = sample.iter().sum::<f64>() / SAMPLES as f64;
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / SAMPLES as f64;
        (mean, variance)
    }

    #[test]
    fn beta_numbers_have_the_moments_of_their_distribution() {
        for (a, b) in [(1.0, 1.0), (0.5, 0.5), (0.01, 3.0), (7.25, 2.0), (400.0, 100.0)] {
            let (mean, variance) = moments(|draws| draws.beta(a, b));
            let (sum, expected) = (a + b, a / (a + b));
            assert!((mean - expected).abs() < 0.01, "Beta({a}, {b}) has mean {mean}");
            let expected = a * b / (sum * sum * (sum + 1.0));
            assert!((variance - expected).abs() < 0.1 * expected, "Beta({a}, {b}) has variance {variance}");
        }
    }

    #[test]
    fn normal_numbers_have_the_moments_of_their_distribution() {
        let (mean, variance) = moments(|draws| draws.normal(0.3, 0.09));
        assert!((mean - 0.3).abs() < 0.01 && (variance - 0.09).abs() < 0.003, "{mean}, {variance}");
    }

    #[test]
    fn seed_and_position_decide_every_draw() {
        let draw = |seed, position| Draws::of(&RoundStart { seed, position, ..start(LIMITS) }).beta(2.0, 3.0);
        assert_eq!(draw(1, 2), draw(1, 2));
        assert!(draw(1, 2) != draw(2, 2) && draw(1, 2) != draw(1, 3));
    }
}
